"""Transactions of Kafka clients, on Warren's own: what they hold is in no log before it is committed."""
