"""Warren's own calls, for what Kafka lacks: the whole embedded API over the network."""
