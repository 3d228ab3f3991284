"""Warren's own calls, for functions that Kafka lacks: the whole embedded API over the network."""
