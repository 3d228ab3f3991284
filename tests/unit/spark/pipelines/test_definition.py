from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from warren.errors import BadPipeline
from warren.spark.pipelines.definition import IN_PYTHON, PIPELINE_FILE_SIZE_MAX, PIPELINE_STEPS_MAX, Definition
from warren.spark.pipelines.location import location_of
from warren.spark.store_access.through_broker import BrokerAccess

REVENUE = """
[pipeline]
name = "revenue"
trigger = "continuous"

[source]
topics = ["orders"]
tag = "eu.#"
format = "json"
schema = "id long, country string, amount double"

[[step]]
sql = "select window(timestamp, '1 minute') w, country, sum(amount) total from input group by 1, 2"
watermark = "timestamp 30 seconds"

[sink]
topic = "revenue"
format = "json"
"""
SMALLEST: dict[str, Any] = {"pipeline": {"name": "p"}, "source": {"topics": ["a"]}, "sink": {"console": True}}
TEXTS = {"topics": ["a"], "format": "text"}
TOPIC = {"topic": "b", "format": "json"}


def defined(**sections: Any) -> Definition:
    return Definition.of({**SMALLEST, **sections})


def complaint(**sections: Any) -> str:
    with pytest.raises(BadPipeline) as refused:
        defined(**sections)
    return str(refused.value).removeprefix(f"{IN_PYTHON}: ")


def test_a_file_becomes_a_pipeline_definition(tmp_path: Path) -> None:
    file = tmp_path / "revenue.toml"
    file.write_text(REVENUE)

    definition = Definition.read(file)

    assert (definition.name, definition.pipeline.trigger, definition.group) == ("revenue", "continuous", "revenue")
    assert (definition.source.topics, definition.source.tag, definition.source.format) == (("orders",), "eu.#", "json")
    assert definition.source.schema == "id long, country string, amount double"
    assert definition.steps[0].sql is not None
    assert definition.steps[0].sql.startswith("select window(")
    assert definition.steps[0].watermark == ("timestamp", "30 seconds")
    assert (definition.sink.topic, definition.sink.format) == ("revenue", "json")
    assert (definition.file, definition.directory) == (str(file), str(tmp_path))


def test_missing_keys_have_defaults() -> None:
    definition = defined()

    assert (definition.pipeline.trigger, definition.source.format, definition.source.starting) == (
        "available-now",
        "binary",
        "earliest",
    )
    assert (definition.source.fail_on_data_loss, definition.source.headers, definition.steps) == (True, False, ())
    assert (definition.pipeline.checkpoint, definition.dead_letter, definition.sink.mode) == (None, None, None)
    assert definition.group == "p"


def test_an_empty_group_is_no_group() -> None:
    assert defined(source={"topics": "a", "group": ""}).group == ""
    assert defined(source={"topics": "a", "group": "others"}).group == "others"


def test_a_path_is_relative_to_the_file_unless_it_names_a_file_system() -> None:
    definition = Definition.of(SMALLEST, directory="/etc/pipelines")

    assert definition.located("out/rows") == "/etc/pipelines/out/rows"
    assert definition.located("../rows") == "/etc/rows"
    assert definition.located("/rows") == "/rows"
    assert definition.located("s3://bucket/rows") == "s3://bucket/rows"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("latest", "latest"),
        ("-10 minutes", "-10 minutes"),
        ({"orders": {"0": 41, "1": -1}}, '{"orders": {"0": 41, "1": -1}}'),
    ],
)
def test_a_start_is_a_word_a_time_or_numbers(start: object, expected: str) -> None:
    assert defined(source={"topics": ["a"], "starting": start}).source.starting == expected


def test_a_start_may_be_a_time_of_toml(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(REVENUE.replace("[source]", "[source]\nstarting = 2026-03-01T12:00:00Z"))

    assert Definition.read(file).source.starting == "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"sorce": {}}, "sorce: there is no such key; did you mean 'source'?"),
        ({"x": {}}, "x: there is no such key; there are pipeline, source, step, sink"),
        ({"source": {"topcis": ["a"]}}, "source.topcis: there is no such key; did you mean 'topics'?"),
        ({"step": [{"sqll": "x"}]}, "step 1.sqll: there is no such key; did you mean 'sql'?"),
        ({"source": []}, "source: expected a table of keys, not []"),
        ({"step": {"sql": "x"}}, "step: expected at most 100 tables, each headed [[step]]"),
        ({"step": [{"watermark": "t 1 day"}] * (PIPELINE_STEPS_MAX + 1)}, "step: expected at most 100 tables"),
        ({"pipeline": {}}, "pipeline.name: is missing"),
        ({"pipeline": {"name": "a/b"}}, "pipeline.name: pipeline name 'a/b'"),
        ({"pipeline": {"name": "p", "trigger": "now"}}, 'pipeline.trigger: expected "available-now", '),
        ({"pipeline": {"name": "p", "store": ""}}, "pipeline.store: expected text that is not empty, not ''"),
        ({"source": {}}, "source: set either topics or topics_pattern"),
        ({"source": {"topics": ["a"], "topics_pattern": "b"}}, "source: set either topics or topics_pattern"),
        ({"source": {"topics": []}}, 'source.topics: expected topics, such as ["orders"], not []'),
        ({"source": {"topics_pattern": "("}}, "source.topics_pattern: '(' is not a regular expression"),
        ({"source": {"topics": ["a"], "tag": "a.#.b"}}, "source.tag: tag filter 'a.#.b'"),
        (
            {"source": {"topics": ["a"], "format": "jsno"}},
            "source.format: expected one of binary, text, json, csv, not 'jsno'; ",
        ),
        ({"source": {"topics": ["a"], "format": "jsno"}}, "did you mean 'json'?"),
        ({"source": {"topics": ["a"], "format": "json"}}, 'source.schema: format "json" needs it'),
        ({"source": {**TEXTS, "schema": "a long"}}, "source.schema: only values of format"),
        (
            {"source": {"topics": ["a"], "max_per_trigger": 0}},
            "source.max_per_trigger: expected a whole number above 0",
        ),
        ({"source": {"topics": ["a"], "max_per_trigger": True}}, "expected a whole number above 0, not True"),
        ({"source": {"topics": ["a"], "headers": "yes"}}, "source.headers: expected true or false, not 'yes'"),
        (
            {"source": {"topics": ["a"], "starting": {"a": {"x": 1}}}},
            "source.starting: expected a number for each partition",
        ),
        (
            {"source": {"topics": ["a"], "starting": {"a": {"0": -3}}}},
            "source.starting: expected numbers of at least 0",
        ),
        ({"source": {"topics": ["b"]}, "sink": TOPIC}, "sink.topic: 'b' is also read"),
        ({"step": [{}]}, "step 1: set exactly one of sql, dedupe, python, dead_letter"),
        ({"step": [{"sql": "x", "python": "a:b"}]}, "step 1: set exactly one of"),
        ({"step": [{"sql": "x", "name": "input"}]}, "step 1.name: expected a name for a view other than input"),
        ({"step": [{"sql": "x", "watermark": "timestamp"}]}, "step 1.watermark: expected a column and a delay"),
        ({"step": [{"sql": "x", "within": "1 day"}]}, "step 1.within: needs dedupe"),
        ({"step": [{"dedupe": ["id"]}]}, "step 1.dedupe: set either within or watermark"),
        ({"step": [{"dedupe": ["id"], "within": "1 day", "watermark": "t 1 day"}]}, "step 1.dedupe: set either"),
        ({"step": [{"dedupe": ["id"], "within": "soon"}]}, 'step 1.within: expected a time such as "10 seconds"'),
        ({"step": [{"dedupe": [], "within": "1 day"}]}, 'step 1.dedupe: expected columns, such as ["id"], not []'),
        ({"step": [{"dedupe": ["a b"], "within": "1 day"}]}, "step 1.dedupe: expected the name of a column, not 'a b'"),
        ({"step": [{"python": "module"}]}, 'step 1.python: expected a function such as "module:function"'),
        ({"step": [{"dead_letter": "d"}]}, 'step 1: dead_letter: values of format "binary" always fit'),
        (
            {"source": TEXTS, "step": [{"sql": "x"}, {"dead_letter": "d"}]},
            "step 2: dead_letter must be alone in the first",
        ),
        (
            {"source": TEXTS, "step": [{"dead_letter": "d", "watermark": "t 1 day"}]},
            "step 1: dead_letter must be alone",
        ),
        ({"source": TEXTS, "step": [{"dead_letter": "a"}]}, "step 1: dead_letter: 'a' is also read or written"),
        ({"source": TEXTS, "step": [{"dead_letter": "b"}], "sink": TOPIC}, "dead_letter: 'b' is also read or written"),
        ({"sink": {}}, "sink: set exactly one of topic, parquet, table, console"),
        ({"sink": {**TOPIC, "console": True}}, "sink: set exactly one of"),
        ({"sink": {"topic": "b"}}, 'sink.format: is missing: set "json", "text" or "binary"'),
        ({"sink": {"console": True, "key": "k"}}, "sink.key: is for topics, but this sink is console"),
        (
            {"sink": {**TOPIC, "partition_by": ["k"]}},
            "sink.partition_by: is for parquet and table, but this sink is topic",
        ),
        ({"sink": {**TOPIC, "mode": "appendd"}}, "sink.mode: expected one of append, update, complete"),
    ],
)
def test_an_invalid_definition_is_refused_with_the_key_and_advice(sections: dict[str, Any], sentence: str) -> None:
    assert sentence in complaint(**sections)


def test_a_complaint_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[pipeline]\nnaem = 'p'\n")

    with pytest.raises(BadPipeline) as refused:
        Definition.read(file)

    assert (refused.value.file, refused.value.key) == (str(file), "pipeline.naem")
    assert str(refused.value).startswith(f"{file}: pipeline.naem: ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'[pipeline]  name = "revenue"', "is not TOML: "),
        (b"\xff", "is not TOML: "),
        (b"#" * (PIPELINE_FILE_SIZE_MAX + 1), "not a pipeline file"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_not_a_definition_is_refused(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "p.toml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(BadPipeline, match=sentence):
        Definition.read(file)


def test_a_definition_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        defined().sink.console = False  # type: ignore[misc]


def test_a_pipeline_names_some_brokers_of_a_cluster_and_a_rack() -> None:
    pipeline = {"name": "p", "servers": "a:9092,b:9092", "rack": "b"}

    access = location_of(defined(pipeline=pipeline)).access()

    assert access == BrokerAccess(servers="a:9092,b:9092", rack="b")
    assert "pipeline.rack" in complaint(pipeline={"name": "p", "rack": "b"})
