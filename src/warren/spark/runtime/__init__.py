"""Spark itself: its Java, the session and its settings, the files that are shipped to a cluster, and its tasks."""
