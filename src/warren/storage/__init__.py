"""Bytes on disk: a log of messages that is fast, shared by processes, and whole after any crash."""

from warren.storage.log import Log
from warren.storage.reader import END, START, QueueReader

__all__ = ["END", "START", "Log", "QueueReader"]
