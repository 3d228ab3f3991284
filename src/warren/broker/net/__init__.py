"""Connections: bytes to requests and back, and the limits on connections."""
