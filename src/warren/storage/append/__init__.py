"""Appending: how records get to the end of a log, when that is promised, and what a crash leaves."""
