"""Groups of Kafka's clients: who is a member, who owns which partitions, and where the group stands."""
