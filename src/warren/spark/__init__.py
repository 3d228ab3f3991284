"""Warren on Spark: a table and a stream for it, and pipelines that run on it."""
