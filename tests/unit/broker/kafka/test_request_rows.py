"""Lists in requests: a name that comes twice is kept once, pieces have all rows, and answers to pieces are joined."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.message_values import decode_request, encode_request, encode_response
from warren.broker.kafka.errors import Code
from warren.broker.kafka.partition_rows import last_of_each, once_each, pieces_of
from warren.broker.kafka.request_rows import rows_of
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.kafka.fetch import FetchPartition, FetchTopic
from warren.protocol.kafka.produce import ProducedPartition, ProducedTopic
from warren.protocol.kafka_messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
    OffsetDeleteResponse,
)
from warren.protocol.schema_codec import read_request

NAMES = st.sampled_from(["a", "b", "c"])
TOPICS = st.lists(st.tuples(NAMES, st.lists(st.integers(0, 150), max_size=150)), max_size=8)


def offsets_asked(topics: list[tuple[str, list[int]]]) -> ListOffsetsRequest:
    values = [
        {"name": name, "partitions": [{"partition_index": number, "timestamp": -1} for number in numbers]}
        for name, numbers in topics
    ]
    body = encode_request(ApiKey.LIST_OFFSETS, 6, {"topics": values})
    return read_request(ListOffsetsRequest, 6, body)


@given(TOPICS)
def test_each_partition_is_answered_once_wherever_the_request_is_split(topics: list[tuple[str, list[int]]]) -> None:
    rows = rows_of(ApiKey.LIST_OFFSETS, 6)
    assert rows is not None
    request = offsets_asked(topics)
    refused = rows.tidy(request)
    pieces = list(rows.pieces(request))
    answers = [
        ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    topic.name, [ListOffsetsResponsePartition(part.partition_index) for part in topic.partitions]
                )
                for topic in piece.topics
            ]
        )
        for piece in pieces
    ]

    whole = rows.joined(answers, refused)

    all_named = [(name, number) for name, numbers in topics for number in numbers]
    assert isinstance(whole, ListOffsetsResponse)
    answered = [(row.name, part.partition_index) for row in whole.topics for part in row.partitions]
    errors = {
        (row.name, part.partition_index)
        for row in whole.topics
        for part in row.partitions
        if part.error_code == Code.INVALID_REQUEST
    }
    assert sorted(answered) == sorted(set(all_named))
    assert errors == {each for each in all_named if all_named.count(each) > 1}
    assert [row.name for row in whole.topics].count("a") <= 1
    assert all(rows.count(piece) <= LOOP_ROWS_AT_ONCE for piece in pieces)
    encode_response(ApiKey.LIST_OFFSETS, 6, whole)


def test_a_list_without_elements_or_with_null_is_not_changed() -> None:
    rows = rows_of(ApiKey.METADATA, 9)
    assert rows is not None
    nothing: tuple[list[str] | None, ...] = (None, [])
    for topics in nothing:
        request = decode_request(ApiKey.METADATA, 9, encode_request(ApiKey.METADATA, 9, {"topics": topics}))

        assert (rows.tidy(request), request.topics, rows.count(request)) == ([], topics, 0)


ROWS = [
    pytest.param(api.key, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    for version in range(api.first, api.last + 1)
    if rows_of(api.key, version) is not None
]


def row_of(named_by: tuple[str, ...] | None) -> Any:
    """Returns a row by its names. The empty name is the default of every other field."""
    if not named_by:
        return "a" if named_by == () else {}
    values = {"name": "a", "topic": "a", "group_id": "a", "resource_type": 2, "resource_name": "a", "member_id": "a"}
    return {name: values[name] for name in named_by if name in values}


@pytest.mark.parametrize(("api_key", "version"), ROWS)
def test_a_duplicate_row_is_answered_once_or_refused_once(api_key: int, version: int) -> None:
    rows = rows_of(api_key, version)
    assert rows is not None
    row = row_of(rows.named_by)
    if rows.parts:
        row |= {rows.parts: [{rows.part: 3}] if rows.part else [3]}
    body = encode_request(api_key, version, {rows.requested: [row, row]})
    request = decode_request(api_key, version, body)

    refused = rows.tidy(request)

    remaining = getattr(request, rows.requested)
    count = sum(len(getattr(each, rows.parts)) for each in remaining) if rows.parts else len(remaining)
    if rows.named_by is None:
        assert (count, refused) == (2, [])
        return
    assert (count, len(refused)) == ((1, 0) if rows.refused is None else (0, 1))
    # Every version has a field for the error.
    encode_response(api_key, version, rows.joined([], refused))


def test_an_error_of_a_piece_is_the_error_of_the_whole_answer() -> None:
    rows = rows_of(ApiKey.OFFSET_DELETE, 0)
    assert rows is not None

    whole = rows.joined([OffsetDeleteResponse(), OffsetDeleteResponse(error_code=Code.NON_EMPTY_GROUP)], [])

    assert whole == OffsetDeleteResponse(error_code=Code.NON_EMPTY_GROUP, topics=[])


# --- Produce and Fetch ---


@given(TOPICS)
def test_a_partition_that_a_produce_names_twice_is_left_out(topics: list[tuple[str, list[int]]]) -> None:
    topics_asked = [
        ProducedTopic(name, b"", [ProducedPartition(number, None) for number in parts]) for name, parts in topics
    ]

    tidy, repeated = once_each(topics_asked)

    named = [(name, number) for name, numbers in topics for number in numbers]
    twice = {each for each in named if named.count(each) > 1}
    assert {(tidy[place].name, number) for place, numbers in repeated.items() for number in numbers} == twice
    remaining = [(topic.name, part.partition) for topic in tidy for part in topic.partitions]
    assert sorted(remaining) == sorted(set(named) - twice)
    cut = [(piece.name, part.partition) for _, piece in pieces_of(tidy) for part in piece.partitions]
    assert cut == remaining
    assert all(len(piece.partitions) <= LOOP_ROWS_AT_ONCE for _, piece in pieces_of(tidy))


@given(TOPICS)
def test_a_fetch_reads_each_partition_once_as_it_was_named_last(topics: list[tuple[str, list[int]]]) -> None:
    named = [(name, number, place) for place, (name, numbers) in enumerate(topics) for number in numbers]
    fetched_topics = [
        FetchTopic(name, b"", [FetchPartition(number, place, 1) for number in numbers])
        for place, (name, numbers) in enumerate(topics)
    ]

    rows = [
        (topic.name, part.partition, part.fetch_offset)
        for topic in last_of_each(fetched_topics)
        for part in topic.partitions
    ]

    assert sorted(rows) == sorted((*key, place) for key, place in {(n, p): at for n, p, at in named}.items())
