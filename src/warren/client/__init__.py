"""The client: the objects of an embedded store, over the network."""
