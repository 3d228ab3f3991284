"""Pages of messages: how full they are, where they continue, and that runs give the same as single records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from warren.message import Message
from warren.storage import Log
from warren.storage.disk.block import Block
from warren.storage.format import columns
from warren.storage.format.tags import TagFilter
from warren.storage.read import messages as read
from warren.storage.read import single_runs
from warren.storage.read.messages import Label, Page
from warren.storage.read.single_runs import Run

COUNT = 1000
LABEL = Label("orders", 3)


@pytest.fixture(params=["singles", "batches", "mixed"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """A thousand messages with all fields, in several blocks."""
    with quick_log(tmp_path, block_size=32 << 10, topic="orders", partition=3) as log:
        for start in range(0, COUNT, 100):
            if request.param == "singles" or (request.param == "mixed" and start % 200 == 0):
                append_singles(log, range(start, start + 100))
            else:
                append_batch(log, range(start, start + 100))
        yield log


def body(number: int) -> bytes:
    return b"%d" % number * (number % 5)


def tag(number: int) -> str:
    return ("eu.de", "us", "", "eu.fr")[number % 4]


def key(number: int) -> bytes | None:
    return None if number % 3 else b"%d" % number


def headers(number: int) -> dict[str, bytes]:
    return {} if number % 2 else {"trace": b"%d" % number, "x": b""}


def append_singles(log: Log, numbers: range) -> None:
    for number in numbers:
        log.append(
            body(number),
            tag=tag(number),
            key=key(number),
            headers=headers(number),
            id=f"é{number}",
            corr_offset=number,
        )


def append_batch(log: Log, numbers: range) -> None:
    log.append_many(
        list(map(body, numbers)),
        tags=list(map(tag, numbers)),
        keys=list(map(key, numbers)),
        headers=list(map(headers, numbers)),
        ids=[f"é{number}" for number in numbers],
        corr_offsets=list(numbers),
    )


def is_message(message: Message, number: int) -> bool:
    return message == (
        number,
        message.offset,
        3,
        "orders",
        message.timestamp,
        f"é{number}",
        tag(number),
        key(number),
        headers(number),
        number,
        body(number),
        0,
    )


def page(log: Log, number: int, limit: int = 100, bytes_max: int | None = None, tag: str | None = None) -> Page:
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    return read.read(log._view, LABEL, number, limit=limit, bytes_max=bytes_max, tag=tag_filter)


def numbers_of(messages: Sequence[Message]) -> list[int]:
    return [message.number for message in messages]


def test_each_message_has_everything_that_was_appended_with_it(log: Log) -> None:
    messages = log.read(0, limit=COUNT)

    assert numbers_of(messages) == list(range(COUNT))
    assert all(is_message(message, number) for number, message in enumerate(messages))
    assert [log.at(number) for number in range(0, COUNT, 7)] == messages[::7]


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 99, 100, 450, 999])
@pytest.mark.parametrize("limit", [1, 23, 24, 25, 64, 130])
def test_a_page_starts_and_ends_anywhere(log: Log, number: int, limit: int) -> None:
    first = page(log, number, limit)

    end = min(number + limit, COUNT)
    assert numbers_of(first.messages) == list(range(number, end))
    assert first.next_number == end


@pytest.mark.parametrize("bytes_max", [0, 1, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("number", [0, 5, 64, 500])
def test_a_page_holds_up_to_bytes_max_and_at_least_one_message(log: Log, number: int, bytes_max: int) -> None:
    first = page(log, number, COUNT, bytes_max)

    end, size = number, 0
    while end < COUNT and (size + len(body(end)) <= bytes_max or end == number):
        size, end = size + len(body(end)), end + 1
    assert numbers_of(first.messages) == list(range(number, end))
    assert first.next_number == end


def test_a_page_continues_after_filtered_messages(log: Log) -> None:
    first = page(log, 0, 3, tag="us")

    assert numbers_of(first.messages) == [1, 5, 9]
    assert 10 <= first.next_number <= 13
    assert numbers_of(page(log, first.next_number, 2, tag="us").messages) == [13, 17]


def test_a_page_that_finds_nothing_continues_at_the_end(log: Log) -> None:
    for empty in (page(log, 0, tag="nothing"), page(log, COUNT)):
        assert (empty.messages, empty.next_number) == ([], COUNT)


def test_a_filter_and_bounds_hold_together(log: Log) -> None:
    expected = [number for number in range(COUNT) if tag(number).startswith("eu.")]
    numbers: list[int] = []
    number = 0
    while number < COUNT:
        part = page(log, number, 40, 150, "eu.*")
        number = part.next_number
        assert sum(len(message.body) for message in part.messages) <= 150
        numbers += numbers_of(part.messages)

    assert numbers == expected


@pytest.mark.parametrize("limit", [5, 6, 7, 100])
def test_many_messages_are_made_some_at_a_time(log: Log, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = page(log, 0, limit)
    monkeypatch.setattr(columns, "MADE_AT_ONCE", 3)

    assert page(log, 0, limit) == whole
    assert len(whole.messages) == limit


def test_runs_return_the_messages_of_single_records(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    together = log.read(0, limit=COUNT), log.read(0, limit=COUNT, tag="us"), log.read(70, limit=COUNT, bytes_max=900)
    monkeypatch.setattr(single_runs, "RUN_ROWS_MIN", 1 << 30)

    alone = log.read(0, limit=COUNT), log.read(0, limit=COUNT, tag="us"), log.read(70, limit=COUNT, bytes_max=900)

    assert together == alone


def test_single_records_are_read_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_log(tmp_path) as log:
        append_singles(log, range(640))

        def fail(*_: object) -> None:
            raise AssertionError("read by itself")

        monkeypatch.setattr(Block, "read", fail)

        assert numbers_of(log.read(0, limit=640)) == list(range(640))
        assert numbers_of(log.read(100, limit=100)) == list(range(100, 200))


def test_only_matching_records_become_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    run_messages = read._run_messages

    def count(run: Run, label: Label) -> list[Message]:
        made.append(len(run))
        return run_messages(run, label)

    with quick_log(tmp_path) as log:
        append_singles(log, range(640))
        monkeypatch.setattr(read, "_run_messages", count)

        assert len(log.read(0, limit=640, tag="us")) == 160

    assert sum(made) == 160


def test_each_tag_is_matched_once_for_many_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []

    def matches(_: TagFilter, tag: str) -> bool:
        matched.append(tag)
        return tag != ""

    with quick_log(tmp_path) as log:
        append_singles(log, range(640))
        append_batch(log, range(640, 1280))
        monkeypatch.setattr(TagFilter, "matches", matches)

        assert len(log.read(0, limit=2000, tag="#")) == 960

    assert sorted(matched) == sorted(["", "eu.de", "eu.fr", "us"] * 2)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_messages_are_bounded_by_their_unpacked_size(tmp_path: Path, compression: str) -> None:
    bodies = [b"%d" % number * 100 for number in range(200)]
    with quick_log(tmp_path, compression=compression) as log:
        for each in bodies:
            log.append(each)
        log.append_many(bodies)

        assert [message.body for message in log.read(0, limit=400)] == bodies * 2
        assert len(log.read(100, bytes_max=1500)) == 5
        assert len(log.read(300, bytes_max=1500)) == 5


def test_messages_of_very_different_sizes(tmp_path: Path) -> None:
    bodies = [bytes([number % 256]) * (number * number % 5000 if number % 90 else 300_000) for number in range(400)]
    with quick_log(tmp_path) as log:
        for each in bodies:
            log.append(each)

        assert [message.body for message in log.read(0, limit=400)] == bodies
        assert [message.body for message in log.read(0, limit=400, tag="#")] == []


def test_messages_that_are_appended_while_others_are_read_do_not_disturb(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        messages: list[Message] = []
        for number in range(300):
            log.append(b"%d" % number)
            if number % 7 == 0:
                messages += log.read(len(messages), limit=1000)

        assert [message.body for message in messages] == [b"%d" % number for number in range(len(messages))]


def test_a_page_scans_no_more_bytes_than_its_limit(log: Log) -> None:
    pages, number, numbers = 0, 0, list[int]()
    while number < COUNT:
        part = read.read(
            log._view, LABEL, number, limit=COUNT, bytes_max=1 << 20, tag=TagFilter.parse("us"), scanned_max=4096
        )
        assert part.next_number > number
        assert part.scanned >= 4096 or part.next_number == COUNT
        number, pages = part.next_number, pages + 1
        numbers += numbers_of(part.messages)

    assert pages > 1
    assert numbers == [each for each in range(COUNT) if tag(each) == "us"]


def test_a_page_without_matches_returns_how_far_it_scanned(log: Log) -> None:
    empty = log.page(0, TagFilter.parse("nothing"), limit=10, bytes_max=1 << 20, scanned_max=1)

    assert empty.messages == []
    assert 0 < empty.next_number < COUNT
