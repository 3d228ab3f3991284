"""Delayed messages, which are parked until they are due."""
