"""A store with slaves: what a master ships, who is in the in-sync set, and who leads next; without I/O."""
