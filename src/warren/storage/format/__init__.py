"""Bytes: how messages, batches and records look on disk and in memory, without any file."""
