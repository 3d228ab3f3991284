"""The messages that a pipeline reads: format "warren" with the options that the file asks for."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from warren.spark.pipelines.definition import Definition

LETTERS_SUFFIX: Final = ".dead"
"""After the group of a pipeline: the group of the query that looks for dead letters."""


def messages(spark: SparkSession, definition: Definition, store: str) -> DataFrame:
    """The stream of messages, as they are."""
    return spark.readStream.format("warren").options(**options(definition, store)).load()


def options(definition: Definition, store: str) -> dict[str, str]:
    """What the source is told."""
    source = definition.source
    given = {
        "topics": ",".join(source.topics) or None,
        "topicsPattern": source.topics_pattern,
        "tag": source.tag,
        "maxOffsetsPerTrigger": source.max_per_trigger,
        "maxBytesPerTrigger": source.max_bytes_per_trigger,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "includeHeaders": str(source.headers).lower(),
        "group": definition.group or None,
        "archive": source.archive and definition.located(source.archive),
        **starting(source.starting),
    }
    return {"path": store} | {name: str(value) for name, value in given.items() if value is not None}


def letters_options(definition: Definition, store: str) -> dict[str, str]:
    """What the source of the dead letters is told: the same messages with their headers, under a group of its own."""
    found = options(definition, store) | {"includeHeaders": "true"}
    return found | {"group": found["group"] + LETTERS_SUFFIX} if "group" in found else found


def starting(where: str) -> dict[str, str]:
    """Where the first run starts, as an option: words and numbers are offsets, all else is a time."""
    is_offsets = where in ("earliest", "latest") or where.startswith("{")
    return {"startingOffsets" if is_offsets else "startingTimestamp": where}
