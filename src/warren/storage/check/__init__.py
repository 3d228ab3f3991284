"""Checks: what is in a log, and whether it is whole."""
