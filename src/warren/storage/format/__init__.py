"""Bytes: the layout of messages, batches and records on disk and in memory, without any file."""
