"""A shard of replicas: how long a fail-over takes, and what replication costs, compared with one broker alone."""
