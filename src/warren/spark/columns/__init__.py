"""Columns: messages as Arrow columns, and bodies as typed values."""
