"""An archive: the messages of topics as Parquet files, each exactly once, checked and read together with the log."""

from warren.spark.archive.retire import retire
from warren.spark.archive.run import archive, verify

__all__ = ["archive", "retire", "verify"]
