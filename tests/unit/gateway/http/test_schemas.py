"""The schemas of HTTP bodies: the sentence that a client gets for a wrong value."""

from __future__ import annotations

from typing import Any

import pytest

from warren.errors import BadInput
from warren.gateway.handlers.groups import SETTINGS
from warren.gateway.handlers.messages import PUT
from warren.gateway.handlers.topics import CHANGES
from warren.gateway.http.counts import Counts
from warren.gateway.http.routes import read_query
from warren.gateway.http.schemas import Fields
from warren.gateway.route_table import routes_of
from warren.limits import PARTITIONS_MAX
from warren.queue.state.settings import DELIVER_AT_CHOICES, RETENTION_AGE_S_MAX, TOPIC_SETTINGS

MESSAGE = {"body": "x"}


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        (PUT, {"mesages": []}, "body: there is no field 'mesages'; did you mean 'messages'?"),
        (PUT, {}, "body: messages is missing"),
        (PUT, None, "body: expected an object, not null"),
        (PUT, {"messages": []}, "body.messages: 0 entries; expected 1 to 1000"),
        (
            PUT,
            {"messages": [MESSAGE], "partition": True},
            "body.partition: expected a whole number from 0 to 999, not true",
        ),
        (
            PUT,
            {"messages": [MESSAGE], "partition": "3"},
            'body.partition: expected a whole number from 0 to 999, not "3"',
        ),
        (
            PUT,
            {"messages": [MESSAGE, {"body": "x", "headers": {"a": 5}}]},
            'body.messages[1].headers.a: expected text, or {"base64": …}, not 5',
        ),
        (PUT, {"messages": [{"body": "x", "tag": "é" * 200}]}, "body.messages[0].tag: 400 bytes; expected 0 to 128"),
        (
            PUT,
            {"messages": [{"body": "\ud800"}]},
            "body.messages[0].body: the text is not Unicode; send it as base64",
        ),
        (PUT, {"messages": "\ud800"}, 'body.messages: expected a list, not "\\ud800"'),
        (CHANGES, {"compression": "gzip"}, 'body.compression: expected one of none, zstd, lz4, not "gzip"'),
        (CHANGES, {"partitions": 1001}, "body.partitions: expected a whole number from 1 to 1000, not 1001"),
        (CHANGES, {"retention_age_s": 0}, "body.retention_age_s: expected seconds above 0, at most 1e+16, not 0"),
        (CHANGES, {"retention_bytes": 10**400}, "body.retention_bytes: expected a whole number from 1 to "),
        (CHANGES, {"dead_letter": "a/b"}, "body.dead_letter: dead-letter topic name 'a/b': a name may only have "),
        (CHANGES, {"durability": "never"}, "body.durability: expected commit, os, or an interval above 0 and at most "),
        (CHANGES, {"durability": 1}, "body.durability: expected commit, os, or e.g. interval:50ms, not 1"),
        (CHANGES, {"version": 1}, "body: there is no field 'version'; "),
        (SETTINGS, {"atempts_max": 1}, "body: there is no field 'atempts_max'; did you mean 'attempts_max'?"),
    ],
)
def test_an_error_names_the_place_the_accepted_values_and_the_wrong_one(
    schema: Fields, value: Any, sentence: str
) -> None:
    with pytest.raises(BadInput) as error:
        schema.take(value, "body")

    assert str(error.value).startswith(sentence)


def test_topics_have_the_settings_of_the_table_over_http() -> None:
    properties = CHANGES.schema()["properties"]

    assert list(properties) == [name for name in TOPIC_SETTINGS if name != "version"]
    assert properties["partitions"] == {"type": "integer", "minimum": 1, "maximum": PARTITIONS_MAX}
    assert properties["retention_age_s"] == {
        "type": ["number", "null"],
        "exclusiveMinimum": 0,
        "maximum": RETENTION_AGE_S_MAX,
    }
    assert properties["deliver_at"] == {"type": ["string", "null"], "enum": [*DELIVER_AT_CHOICES, None]}
    assert CHANGES.take({"retention_age_s": None, "deliver_at": None}, "body") == {
        "retention_age_s": None,
        "deliver_at": None,
    }


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert PUT.take({"messages": [MESSAGE], "partition": 3.0}, "body")["partition"] == 3


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("limt=3", "query: there is no parameter 'limt'; did you mean 'limit'?"),
        ("colour=red", "query: there is no parameter 'colour'; there are limit, after"),
    ],
)
def test_an_unknown_parameter_of_a_query_is_named_with_the_nearest_one(query: str, sentence: str) -> None:
    routes = routes_of(lambda request: NotImplemented, Counts())
    route = routes.find("GET", "/v1/topics/orders/scheduled").route

    with pytest.raises(BadInput) as error:
        read_query(route, query)

    assert str(error.value) == sentence
