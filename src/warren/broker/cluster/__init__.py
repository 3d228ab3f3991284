"""One replica of a shard on the network: its registry, its link to the master, and what it answers."""
