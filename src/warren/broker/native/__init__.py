"""Our own calls, for what Kafka lacks: the whole of the embedded API over the network."""
