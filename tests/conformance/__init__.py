"""Kafka's clients against the broker, and their own tests where their packages have some: one table of what passed."""
