"""The handlers of Kafka's requests."""
