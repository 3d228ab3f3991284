"""Where Spark finds the format "warren" by itself: it looks for `DefaultSource` in every module named `pyspark_*`."""

from warren.spark.source import WarrenDataSource as DefaultSource

__all__ = ["DefaultSource"]
