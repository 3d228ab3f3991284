"""Groups of Kafka clients (consumer groups): their members, the owners of partitions, and committed positions."""
