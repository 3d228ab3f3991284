"""Checks: what a log contains, and whether it is undamaged."""
