"""Queues with the interface of `queue.Queue`: in memory, by hand-over, in one file, and as a topic."""
