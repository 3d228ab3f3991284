"""Pipelines: a small file says what is read, what happens to it and where it goes; this runs it, exactly once."""
