"""Appending: how records get to the end of a log, when a put is durable, and how a log is recovered after a crash."""
