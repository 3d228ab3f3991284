"""Pipelines: a small file describes the topics, steps and sink of a query, which runs on Spark exactly once."""
