"""Connections: bytes to requests and back, and the limits that hold for all of them."""
