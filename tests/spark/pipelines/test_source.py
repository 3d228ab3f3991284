"""The options of a pipeline's source; no Spark runs."""

from __future__ import annotations

from typing import Any

import pytest

from warren.errors import BadPipeline
from warren.spark.pipelines.definition import Definition

pytest.importorskip("pyspark")

EVERY = ["topic", "partition", "offset", "timestamp", "key", "value", "id", "tag", "corr_offset", "byte_offset"]


def definition(*, steps: list[dict[str, Any]] | None = None, **source: Any) -> Definition:
    tables = {"pipeline": {"name": "p"}, "source": source, "step": steps or [], "sink": {"console": True}}
    return Definition.of(tables, directory="/etc/pipelines")


def test_the_file_becomes_options() -> None:
    from warren.spark.pipelines.source import options

    full = definition(
        topics_pattern="orders.*",
        tag="eu.#",
        starting="-10 minutes",
        max_per_trigger=5,
        max_bytes_per_trigger=6,
        fail_on_data_loss=False,
        group="others",
        archive="kept",
        headers=True,
    )

    assert options(definition(topics=["a", "b"]), {"path": "/data"}) == {
        "path": "/data",
        "topics": "a,b",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "includeHeaders": "false",
        "group": "p",
    }
    assert options(full, {"path": "/data"}) == {
        "path": "/data",
        "topicsPattern": "orders.*",
        "tag": "eu.#",
        "startingTimestamp": "-10 minutes",
        "maxOffsetsPerTrigger": "5",
        "maxBytesPerTrigger": "6",
        "failOnDataLoss": "false",
        "includeHeaders": "true",
        "group": "others",
        "archive": "/etc/pipelines/kept",
    }


def test_a_start_is_passed_to_spark_as_offsets_or_as_a_timestamp() -> None:
    from warren.spark.pipelines.source import starting

    assert starting("latest") == {"startingOffsets": "latest"}
    assert starting('{"a": {"0": 1}}') == {"startingOffsets": '{"a": {"0": 1}}'}
    assert starting("2026-03-01T12:00:00") == {"startingTimestamp": "2026-03-01T12:00:00"}


def test_dead_letters_are_read_with_headers_under_a_group_of_their_own() -> None:
    from warren.spark.pipelines.source import letters_options

    grouped = letters_options(definition(topics=["a"]), {"path": "/data"})
    ungrouped = letters_options(definition(topics=["a"], group=""), {"path": "/data"})

    assert (grouped["group"], grouped["includeHeaders"]) == ("p.dead", "true")
    assert "group" not in ungrouped


def test_only_the_columns_that_a_pipeline_needs_are_read() -> None:
    from warren.spark.pipelines.source import options, schema

    json: dict[str, Any] = {"topics": ["a"], "format": "json", "schema": "x long"}
    letters = [{"dead_letter": "a.dead"}]

    assert schema(definition(topics=["a"])).names == EVERY
    assert schema(definition(topics=["a"], headers=True)).names == [*EVERY, "headers"]
    assert schema(definition(topics=["a"], columns=["tag"])).names == ["value", "tag"]
    assert schema(definition(**json, columns=["value"], steps=letters)).names == ["value"]
    assert schema(definition(**json, columns=["key"])).names == ["topic", "partition", "offset", "key", "value"]
    assert options(definition(topics=["a"], columns=["headers"]), {"path": "/data"})["includeHeaders"] == "true"
    with pytest.raises(BadPipeline, match=r"source.columns: a message has no 'tags'; it has topic, "):
        schema(definition(topics=["a"], columns=["tags"]))
