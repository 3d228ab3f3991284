"""Kafka's clients against the broker, and their own tests if their packages have some: one table of the results."""
