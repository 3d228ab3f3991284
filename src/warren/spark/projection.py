"""Which projection a query needs: columns of the message alone, or also those of a value that has a format."""

from __future__ import annotations

from pyspark.sql.types import StructType

from warren.spark.columns import MessageProjection, Projection
from warren.spark.options import ReadOptions


def projection_for(schema: StructType, options: ReadOptions) -> tuple[Projection, frozenset[str]]:
    """The projection, and the names in lower case of those columns that come from the message."""
    if options.value_format == "binary":
        return MessageProjection(schema), frozenset(name.lower() for name in schema.fieldNames())
    # Imported here: only a query with a format needs it.
    from warren.spark.values import TypedProjection

    typed = TypedProjection(schema, options)
    return typed, typed.from_message
