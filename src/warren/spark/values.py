"""Values with a format: the fields of JSON, CSV or text as columns, beside those of the message."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StructType

from warren.spark.columns import Origin
from warren.spark.options import ReadOptions


class TypedProjection:
    """Columns of the message and of its value."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self.scanned: list[str] = []
        self.from_message: frozenset[str] = frozenset()
        raise NotImplementedError

    def batch(self, origin: Origin, rows: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError
