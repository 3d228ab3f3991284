"""Producers of Kafka that number their batches."""
