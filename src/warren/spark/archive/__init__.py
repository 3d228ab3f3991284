"""An archive: messages of topics as Parquet, kept exactly once, checked against the log, and read as one table."""

from warren.spark.archive.retiring import retire
from warren.spark.archive.running import archive, verify

__all__ = ["archive", "retire", "verify"]
