"""Topics, groups, leases, delays and queues of a data directory: synchronous, without a network."""
