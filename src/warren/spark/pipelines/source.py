"""The source of a pipeline: format "warren" with the options of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from warren.spark.columns.columns import message_schema
from warren.spark.pipelines.definition import Definition

PLACE: Final = frozenset({"topic", "partition", "offset"})
"""The columns by which an error names the message that stopped the pipeline."""
LETTERS_SUFFIX: Final = ".dead"
"""The suffix that the query for dead letters adds to the group of a pipeline."""


def messages(spark: SparkSession, definition: Definition, store: Mapping[str, str]) -> DataFrame:
    """Returns the stream of messages with the columns of `schema`."""
    reader = spark.readStream.format("warren").options(**options(definition, store))
    return reader.schema(schema(definition)).load()


def schema(definition: Definition) -> StructType:
    """Returns the columns of the message to read. Raises BadPipeline if the file names another."""
    source = definition.source
    every = message_schema(include_headers=True)
    names = set(every.names if source.columns is None else ["value", *source.columns])
    if source.columns is None and not source.headers:
        names.discard("headers")
    for name in names - set(every.names):
        raise definition.complaint("source.columns", f"a message has no {name!r}; it has {', '.join(every.names)}")
    if source.format != "binary" and not definition.dead_letter:
        names |= PLACE
    return StructType([field for field in every if field.name in names])


def options(definition: Definition, store: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the source; `store` are those that name the store."""
    source = definition.source
    values = {
        "topics": ",".join(source.topics) or None,
        "topicsPattern": source.topics_pattern,
        "tag": source.tag,
        "maxOffsetsPerTrigger": source.max_per_trigger,
        "maxBytesPerTrigger": source.max_bytes_per_trigger,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "includeHeaders": str(source.headers or "headers" in (source.columns or ())).lower(),
        "group": definition.group or None,
        "archive": source.archive and definition.located(source.archive),
        **starting(source.starting),
    }
    return dict(store) | {name: str(value) for name, value in values.items() if value is not None}


def letters_options(definition: Definition, store: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the source of dead letters: the same messages with their headers, under another group."""
    same = options(definition, store) | {"includeHeaders": "true"}
    return same | {"group": same["group"] + LETTERS_SUFFIX} if "group" in same else same


def starting(where: str) -> dict[str, str]:
    """Returns the option that says where the first run starts: words and numbers are offsets, any
    other text is a time.
    """
    is_offsets = where in ("earliest", "latest") or where.startswith("{")
    return {"startingOffsets" if is_offsets else "startingTimestamp": where}
