"""Reading by number, backwards, from the end and by time, over single records, batches and blocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.clock import microseconds
from warren.errors import BadInput, MalformedFilter, NumberRetired
from warren.message import Message
from warren.storage import Log

COUNT = 400
MS = 1_000_000
TAGS = ("eu.de", "eu.fr", "us.ny", "")


def fill(log: Log, clock: SimulatedClock, count: int = COUNT) -> None:
    """Messages one by one and in batches of six; each batch, and each single message, a millisecond apart."""
    for start in range(log.end, log.end + count, 8):
        for number in range(start, start + 2):
            clock.pass_ns(MS)
            log.append(_body(number), tag=TAGS[number % 4])
        clock.pass_ns(MS)
        numbers = range(start + 2, start + 8)
        log.append_many([_body(number) for number in numbers], tags=[TAGS[number % 4] for number in numbers])


def _body(number: int) -> bytes:
    return b"%06d" % number * (1 + number % 7)


@pytest.fixture(params=VERSIONS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Some hundred messages in several blocks."""
    clock = SimulatedClock()
    log = quick_log(tmp_path, version=request.param, clock=clock, block_size=4096)
    fill(log, clock)
    return log


def numbers_of(messages: list[Message]) -> list[int]:
    return [message.number for message in messages]


# --- By number ---


def test_each_message_is_found_by_its_number(log: Log) -> None:
    for number in (*range(COUNT), *range(COUNT - 1, -1, -3)):
        message = log.at(number)

        assert message is not None
        assert (message.number, message.body, message.tag) == (number, _body(number), TAGS[number % 4])


def test_past_the_end_no_message_is_found(log: Log) -> None:
    assert log.at(COUNT) is None
    assert log.at(COUNT + 1000) is None
    assert log.read(COUNT) == []
    assert log.read(COUNT + 1000) == []


def test_a_number_below_0_was_never_there(log: Log) -> None:
    with pytest.raises(NumberRetired) as refused:
        log.at(-1)

    assert (refused.value.number, refused.value.first) == (-1, 0)


def test_reading_crosses_blocks_in_order(log: Log) -> None:
    messages = log.read(3, limit=COUNT)

    assert numbers_of(messages) == list(range(3, COUNT))
    assert [message.body for message in messages] == [_body(number) for number in range(3, COUNT)]
    assert len(log.inspect().blocks) > 3


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 64, 65])
def test_no_more_messages_are_read_than_requested(log: Log, limit: int) -> None:
    for start in range(0, COUNT, 5):
        assert numbers_of(log.read(start, limit=limit)) == list(range(start, min(COUNT, start + limit)))


@pytest.mark.parametrize("limit", [0, -1])
def test_reading_none_gives_none(log: Log, limit: int) -> None:
    assert log.read(0, limit=limit) == []


def test_a_thousand_are_read_by_default(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append_many([b""] * 1001)

        assert len(log.read(0)) == 1000


@pytest.mark.parametrize("bytes_max", [0, 1, 6, 7, 100, 1000])
def test_no_more_bytes_are_read_than_requested_except_for_one_message(log: Log, bytes_max: int) -> None:
    for start in range(0, COUNT, 3):
        messages = log.read(start, bytes_max=bytes_max)

        sizes = [len(message.body) for message in messages]
        following = len(_body(start + len(messages)))
        assert numbers_of(messages) == list(range(start, start + len(messages)))
        assert len(messages) == 1 or sum(sizes) <= bytes_max
        assert sum(sizes) + following > bytes_max or start + len(messages) == COUNT


def test_only_messages_that_pass_the_filter_are_read(log: Log) -> None:
    expected = [number for number in range(5, COUNT) if TAGS[number % 4].startswith("eu.")]

    assert numbers_of(log.read(5, tag="eu.*")) == expected
    assert numbers_of(log.read(5, tag="eu.*", limit=10)) == expected[:10]
    assert numbers_of(log.read(5, tag="us.ny;eu.fr", limit=3)) == [5, 6, 9]
    assert log.read(5, tag="asia.#") == []
    assert numbers_of(log.read(0, tag="#", limit=5)) == [0, 1, 2, 4, 5]


def test_a_filter_and_a_bound_in_bytes_hold_together(log: Log) -> None:
    messages = log.read(0, tag="eu.*", bytes_max=100)

    assert sum(len(message.body) for message in messages) <= 100
    assert numbers_of(messages) == [number for number in range(COUNT) if number % 4 < 2][: len(messages)]
    assert len(messages) > 3


def test_a_malformed_filter_is_refused(log: Log) -> None:
    with pytest.raises(MalformedFilter, match="may only be the last level"):
        log.read(0, tag="a.#.b")
    with pytest.raises(MalformedFilter, match="empty"):
        log.read(0, tag="")


# --- Backwards ---


def test_backwards_goes_from_the_last_message_to_the_first(log: Log) -> None:
    assert numbers_of(list(log.backwards())) == list(range(COUNT - 1, -1, -1))


@pytest.mark.parametrize("number", [0, 1, 255, 256, 257, COUNT - 1])
def test_backwards_starts_with_the_named_message(log: Log, number: int) -> None:
    assert numbers_of(list(log.backwards(number))) == list(range(number, -1, -1))


def test_backwards_from_past_the_end_starts_with_the_last(log: Log) -> None:
    assert next(log.backwards(COUNT + 5)).number == COUNT - 1


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_log_has_nothing_in_any_direction(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        assert (log.first, log.end) == (0, 0)
        assert list(log.backwards()) == log.last(5) == log.read(0) == []
        assert log.at(0) is None
        assert log.find_time(0) == 0


def test_reading_backwards_stops_at_retired_messages(log: Log) -> None:
    first = log.retire(before=200)

    assert 100 < first <= 200
    assert list(log.backwards())[-1].number == first
    with pytest.raises(NumberRetired, match=f"message {first - 1} was retired; the log now starts at {first}"):
        next(log.backwards(first - 1))


@pytest.mark.parametrize("count", [1, 2, 9, COUNT - 1, COUNT, COUNT + 1])
def test_the_last_ones_come_in_order(log: Log, count: int) -> None:
    assert numbers_of(log.last(count)) == list(range(max(0, COUNT - count), COUNT))


def test_without_a_count_only_the_last_message_is_returned(log: Log) -> None:
    assert numbers_of(log.last()) == [COUNT - 1]


@pytest.mark.parametrize("count", [0, -3])
def test_the_last_none_are_none(log: Log, count: int) -> None:
    assert log.last(count) == []


# --- By time ---


def test_each_time_leads_to_the_first_message_at_or_after_it(log: Log) -> None:
    messages = log.read(0)
    times = sorted({message.timestamp for message in messages})
    for time in times:
        expected = min(message.number for message in messages if message.timestamp == time)
        following = min((message.number for message in messages if message.timestamp > time), default=COUNT)

        assert log.find_time(time) == expected
        assert log.find_time(time - 999) == expected
        assert log.find_time(time + 1) == following


def test_a_time_before_the_first_message_leads_to_the_first(log: Log) -> None:
    assert log.find_time(0) == 0
    assert log.find_time(datetime(1970, 1, 1, tzinfo=UTC)) == 0


def test_a_time_after_the_last_message_leads_to_the_end(log: Log) -> None:
    assert log.find_time(2**60) == COUNT
    assert log.find_time(datetime(9999, 1, 1, tzinfo=UTC)) == COUNT


def test_a_time_before_retired_messages_leads_to_the_first_that_is_left(log: Log) -> None:
    first = log.retire(before=200)

    assert log.find_time(0) == first


def test_a_time_may_be_a_datetime_seconds_or_microseconds(log: Log) -> None:
    for message in log.read(0, limit=COUNT):
        expected = log.find_time(message.timestamp)

        assert log.find_time(message.time) == expected
        assert log.find_time(message.time.astimezone(timezone(timedelta(hours=5)))) == expected
        assert log.find_time(message.timestamp / 1e6) == expected


@pytest.mark.parametrize("when", [datetime(2024, 7, 1), "noon", True, None, float("nan"), float("inf")])  # noqa: DTZ001
def test_a_bad_time_or_one_without_a_zone_is_refused(log: Log, when: Any) -> None:
    with pytest.raises(BadInput):
        log.find_time(when)
    with pytest.raises(BadInput):
        microseconds(when)


@pytest.mark.parametrize("timestamp", [0, 1, 2_185_946_106_056_185, *range(START_NS // 1000, START_NS // 1000 + 50)])
def test_the_time_of_a_message_leads_back_to_its_timestamp(timestamp: int) -> None:
    message = Message(0, 0, 0, "", timestamp, "", "", None, {}, -1, b"", 0)

    assert microseconds(message.time) == timestamp
    assert microseconds(timestamp / 1e6) == timestamp
    assert message.time.tzinfo is UTC


@pytest.mark.parametrize("version", VERSIONS)
def test_many_messages_of_one_time_are_found_by_their_first(tmp_path: Path, version: int) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, version=version, clock=clock, block_size=4096) as log:
        log.append(b"before")
        clock.pass_ns(MS)
        for _ in range(100):
            log.append(bytes(100))
        clock.pass_ns(MS)
        log.append(b"after")

        assert log.find_time(START_NS // 1000 + 1000) == 1
        assert log.find_time(START_NS // 1000 + 1001) == 101
        assert len(log.inspect().blocks) > 2


# --- First and end ---


@pytest.mark.parametrize("version", VERSIONS)
def test_first_and_end_count_messages(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
        log.append_many([b"two", b"three"])

        assert (log.first, log.end) == (0, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_has_a_readable_repr(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path / "orders", version=version) as log:
        log.append(b"one")

        assert repr(log) == f"<Log {tmp_path / 'orders'} version {version}, messages 0 to 1>"
        assert log.path == str(tmp_path / "orders")
        assert log.version == version
