"""Replication of a store to slaves: what the master ships, who is in the in-sync set, and who leads next.

Only the modules of `disk` do I/O.
"""
