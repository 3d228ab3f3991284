"""Kafka's requests that are decoded by hand, because they carry messages."""
