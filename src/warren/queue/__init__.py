"""What a queue means to those who use it: synchronous, without a network."""
