"""Stream groups: members own partitions and commit positions."""
