"""The connection to a broker: login, calls, and calls again after a lost connection."""
