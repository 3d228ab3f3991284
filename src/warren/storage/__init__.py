"""Bytes on disk: a log of messages that is fast, shared by processes, and undamaged after any crash."""

from warren.message import END, START
from warren.storage.log import Log
from warren.storage.read.reader import QueueReader

__all__ = ["END", "START", "Log", "QueueReader"]
