"""The connection to a broker: login, calls, and repeated calls after a lost connection."""
