"""The messages that a pipeline reads: format "warren" with the options that the file asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from warren.spark.columns import message_schema
from warren.spark.pipelines.definition import Definition

PLACE: Final = frozenset({"topic", "partition", "offset"})
"""What names a message that stops the pipeline."""
LETTERS_SUFFIX: Final = ".dead"
"""After the group of a pipeline: the group of the query that looks for dead letters."""


def messages(spark: SparkSession, definition: Definition, store: Mapping[str, str]) -> DataFrame:
    """The stream of messages, with the columns that are wanted of them. BadPipeline for one that they do not have."""
    reader = spark.readStream.format("warren").options(**options(definition, store))
    return reader.schema(schema(definition)).load()


def schema(definition: Definition) -> StructType:
    """The columns of the message that are read."""
    source = definition.source
    every = message_schema(include_headers=True)
    wanted = set(every.names if source.columns is None else ["value", *source.columns])
    if source.columns is None and not source.headers:
        wanted.discard("headers")
    for name in wanted - set(every.names):
        raise definition.complaint("source.columns", f"a message has no {name!r}, but {', '.join(every.names)}")
    if source.format != "binary" and not definition.dead_letter:
        wanted |= PLACE
    return StructType([field for field in every if field.name in wanted])


def options(definition: Definition, store: Mapping[str, str]) -> dict[str, str]:
    """What the source is told; `store` are the options that name the store."""
    source = definition.source
    given = {
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
    return dict(store) | {name: str(value) for name, value in given.items() if value is not None}


def letters_options(definition: Definition, store: Mapping[str, str]) -> dict[str, str]:
    """What the source of the dead letters is told: the same messages with their headers, under a group of its own."""
    found = options(definition, store) | {"includeHeaders": "true"}
    return found | {"group": found["group"] + LETTERS_SUFFIX} if "group" in found else found


def starting(where: str) -> dict[str, str]:
    """Where the first run starts, as an option: words and numbers are offsets, all else is a time."""
    is_offsets = where in ("earliest", "latest") or where.startswith("{")
    return {"startingOffsets" if is_offsets else "startingTimestamp": where}
