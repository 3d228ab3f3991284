"""A range of a log as Arrow: which messages, which columns, in which batches, and which bytes are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.crafted import MALFORMED
from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import BadInput, CorruptRecord, MalformedFilter, NumberRetired
from warren.message import Message
from warren.storage import Log
from warren.storage.arrow import scan
from warren.storage.arrow.arrays import SCHEMA
from warren.storage.disk.block import Block
from warren.storage.format.layout import INDEX_ENTRY, LABEL_INDEX, META_HEAD, RECORD_HEAD, RecordHead
from warren.storage.format.record import DiskMessage
from warren.storage.format.tags import TagFilter
from warren.storage.read import single_runs
from warren.storage.read.single_runs import HEAD

COLUMNS = ["number", "offset", "timestamp", "id", "tag", "key", "headers", "corr_offset", "body"]
START_US = START_NS // 1000
BLOCK_SIZE = 64 << 10


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def singles(tmp_path: Path) -> Iterator[Log]:
    """Two thousand messages, each in its own record, in several blocks."""
    with quick_log(tmp_path / "singles", block_size=BLOCK_SIZE) as log:
        for number in range(2000):
            log.append(b"%05d" % number, tag=("eu.de", "us")[number % 2])
        yield log


@pytest.fixture
def batches(tmp_path: Path) -> Iterator[Log]:
    """Eight batches of a thousand messages, in several blocks."""
    with quick_log(tmp_path / "batches", block_size=BLOCK_SIZE) as log:
        for start in range(0, 8000, 1000):
            log.append_many([b"%05d" % number for number in range(start, start + 1000)], tag="eu.de")
        yield log


def table(log: Log, *arguments: Any, **options: Any) -> pa.Table:
    scanned = list(log.scan(*arguments, **options))
    return pa.Table.from_batches(scanned) if scanned else pa.table({"number": pa.array([], pa.int64())})


def numbers(log: Log, *arguments: Any, **options: Any) -> list[int]:
    column: list[int] = table(log, *arguments, **{"columns": ["number"], **options})["number"].to_pylist()
    return column


def block_files(log: Log) -> list[Path]:
    return sorted(Path(log.path).glob("*.block"))


# --- Columns ---


def test_every_column_comes_in_order_with_its_type(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append(b"body")

        (batch,) = log.scan()

    assert batch.schema.names == COLUMNS
    assert batch.schema == pa.schema(
        {
            "number": pa.int64(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", tz="UTC"),
            "id": pa.string(),
            "tag": pa.string(),
            "key": pa.binary(),
            "headers": pa.map_(pa.string(), pa.binary()),
            "corr_offset": pa.int64(),
            "body": pa.binary(),
        }
    )
    assert all(field.nullable for field in batch.schema)


@pytest.mark.parametrize("append", ["one by one", "together"])
def test_each_field_of_a_message_is_in_its_column(tmp_path: Path, clock: SimulatedClock, append: str) -> None:
    with quick_log(tmp_path, clock=clock) as log:
        if append == "one by one":
            offset = log.append(
                b"body", tag="eu.de", key=b"k", headers={"a": b"1", "b": b""}, id="id", corr_offset=7
            ).offset
        else:
            log.append_many(
                [b"body"], tags=["eu.de"], keys=[b"k"], headers=[{"a": b"1", "b": b""}], ids=["id"], corr_offsets=[7]
            )
            offset = log.read(0)[0].offset

        (row,) = table(log).to_pylist()

    assert row == {
        "number": 0,
        "offset": offset,
        "timestamp": datetime.fromtimestamp(START_US / 1e6, UTC),
        "id": "id",
        "tag": "eu.de",
        "key": b"k",
        "headers": [("a", b"1"), ("b", b"")],
        "corr_offset": 7,
        "body": b"body",
    }


@pytest.mark.parametrize("append", [lambda log: log.append(b""), lambda log: log.append_many([b""])])
def test_absent_fields_equal_those_of_read_and_only_the_key_is_null(
    tmp_path: Path, append: Callable[[Log], object]
) -> None:
    with quick_log(tmp_path) as log:
        append(log)

        (row,) = table(log, columns=["key", "id", "tag", "headers", "corr_offset", "body"]).to_pylist()

    assert row == {"key": None, "id": "", "tag": "", "headers": [], "corr_offset": -1, "body": b""}


def test_columns_are_picked_and_ordered(singles: Log) -> None:
    picked = table(singles, 5, 7, columns=["body", "number"])

    assert picked.to_pydict() == {"body": [b"00005", b"00006"], "number": [5, 6]}


@pytest.mark.parametrize("columns", [["number", "size"], [], ["body", "body"], "body"])
def test_columns_that_cannot_be_are_refused_with_those_that_can(singles: Log, columns: Any) -> None:
    with pytest.raises(BadInput, match="number, offset, timestamp, id, tag, key, headers, corr_offset, body"):
        singles.scan(columns=columns)


def test_columns_that_were_not_requested_are_not_built(
    singles: Log, batches: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("made")

    for name in ("gathered", "cut", "text", "headers_array"):
        monkeypatch.setattr(f"warren.storage.arrow.parts.{name}", fail)

    assert numbers(singles) == list(range(2000))
    assert numbers(batches) == list(range(8000))
    with pytest.raises(AssertionError, match="made"):
        table(singles, columns=["body"])


def test_a_scan_returns_the_messages_of_read(singles: Log, batches: Log) -> None:
    for log in (singles, batches):
        rows = table(log, columns=["number", "offset", "tag", "body"]).to_pylist()

        messages = log.read(0, limit=10_000)

        assert [(row["number"], row["offset"], row["tag"], row["body"]) for row in rows] == [
            (message.number, message.offset, message.tag, message.body) for message in messages
        ]


# --- Which messages ---


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, range(2000)),
        (0, 0, range(0)),
        (10, 10, range(0)),
        (10, 5, range(0)),
        (1999, None, range(1999, 2000)),
        (2000, None, range(0)),
        (3000, 4000, range(0)),
        (None, 3000, range(2000)),
        (None, -1, range(0)),
        (63, 65, range(63, 65)),
        (1, 1999, range(1, 1999)),
    ],
)
def test_a_range_of_numbers(singles: Log, start: int | None, end: int | None, expected: range) -> None:
    assert numbers(singles, start, end) == list(expected)


@pytest.mark.parametrize(("start", "end"), [(999, 1001), (1000, 2000), (1500, 1501), (0, 7999), (1, 8000)])
def test_a_range_may_start_and_end_within_a_batch(batches: Log, start: int, end: int) -> None:
    rows = table(batches, start, end)

    assert rows["number"].to_pylist() == list(range(start, end))
    assert rows["body"].to_pylist() == [b"%05d" % number for number in range(start, end)]


def test_an_empty_log_has_no_batches(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        assert list(log.scan()) == []
        assert list(log.scan(since=0, until=1 << 60)) == []


def test_a_scan_of_retired_messages_raises_immediately(singles: Log) -> None:
    first = singles.retire(before=1000)

    with pytest.raises(NumberRetired) as error:
        singles.scan(first - 1)

    assert (error.value.number, error.value.first) == (first - 1, first)
    assert numbers(singles) == list(range(first, 2000))


def test_a_scan_ends_where_the_log_ended_when_it_began(singles: Log) -> None:
    scan = singles.scan(columns=["number"])
    singles.append(b"later")

    assert sum(batch.num_rows for batch in scan) == 2000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_range_of_time(tmp_path: Path, clock: SimulatedClock, version: int) -> None:
    with quick_log(tmp_path, clock=clock, version=version, block_size=4096) as log:
        for _ in range(100):
            log.append(b"x" * 100)
            log.append_many([b"y"] * 3)
            clock.pass_ns(1_000_000)
        ms = 1000

        for since, until in [(0, 100), (10, 20), (0, 1), (99, 200), (50, 50), (-5, 3), (150, 160)]:
            expected = [number for number in range(400) if since <= number // 4 < until]
            assert numbers(log, since=START_US + since * ms, until=START_US + until * ms) == expected
        assert numbers(log, since=START_US + 10 * ms + 1, until=START_US + 11 * ms + 1) == [44, 45, 46, 47]
        assert numbers(log, 46, 1000, until=START_US + 12 * ms) == [46, 47]


def test_times_may_be_datetimes_seconds_or_microseconds(tmp_path: Path, clock: SimulatedClock) -> None:
    with quick_log(tmp_path, clock=clock) as log:
        for _ in range(3):
            log.append(b"")
            clock.pass_ns(1_000_000_000)
        second = START_US + 1_000_000

        for when in (second, second / 1e6, datetime.fromtimestamp(second / 1e6, UTC)):
            assert numbers(log, since=when) == [1, 2]
            assert numbers(log, until=when) == [0]


def test_only_messages_that_pass_the_filter_are_scanned(singles: Log, batches: Log) -> None:
    assert numbers(singles, tag="eu.*") == list(range(0, 2000, 2))
    assert numbers(singles, 10, 15, tag="us") == [11, 13]
    assert numbers(singles, tag="nothing") == []
    assert numbers(batches, 500, 2500, tag="eu.#") == list(range(500, 2500))
    assert numbers(batches, tag="us") == []


def test_a_filter_picks_single_rows_of_a_batch(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        for _ in range(3):
            log.append_many([b"%d" % row for row in range(10)], tags=["a", "b"] * 5, keys=[b"k", None] * 5)

        rows = table(log, tag="b", columns=["number", "key", "body"])

    assert rows["number"].to_pylist() == [number for number in range(30) if number % 2]
    assert rows["key"].null_count == 15
    assert rows["body"].to_pylist() == [b"%d" % (number % 10) for number in range(30) if number % 2]


def test_batches_without_a_wanted_tag_are_not_even_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_log(tmp_path / "log") as log:
        for tag in ("eu.de", "us", "", "eu.de"):
            log.append_many([b"x"] * 100, tag=tag)
        log.append_many([b"x"] * 100, tags=["us", "asia"] * 50)
        log.append_many([b"x"] * 100, tags=["us", "eu.de"] * 50)
        read: list[int] = []
        find = Block.read

        def watched(block: Block, position: int, limit: int) -> DiskMessage:
            record = find(block, position, limit)
            read.append(record.number)
            return record

        monkeypatch.setattr(Block, "read", watched)

        scanned = table(log, 0, tag="eu.*", columns=["number"], skips=True).column("number").to_pylist()

        assert scanned == [*range(100), *range(300, 400), *range(501, 600, 2)]
        assert read == [0, 300, 500]


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_batch_whose_tags_are_compressed_is_unpacked_to_see_them(tmp_path: Path, compression: str) -> None:
    with quick_log(tmp_path / "log", compression=compression) as log:
        log.append_many([b"x" * 100] * 100, tags=["us", "eu.de"] * 50)
        log.append_many([b"x" * 100] * 100, tag="us")

        assert table(log, tag="eu.de", skips=True).num_rows == 50


@pytest.mark.parametrize("place", [4, 20, 36])
def test_a_batch_with_an_invalid_head_is_not_skipped(tmp_path: Path, place: int) -> None:
    with quick_log(tmp_path / "log") as log:
        log.append_many([b"x"] * 100, tag="us")
        log.append_many([b"y"] * 100, tag="us")
        position = log.standing(0).position
        block = Path(log.inspect().blocks[0].path)
    data = bytearray(block.read_bytes())
    data[position + place] ^= 1
    block.write_bytes(data)

    with quick_log(tmp_path / "log", read_only=True) as log:
        if place == 4:
            # Only the checksum of the payload is wrong: a scan that skips the record does not read it.
            with pytest.raises(CorruptRecord):
                table(log, tag="eu")
            assert table(log, tag="eu", skips=True).num_rows == 0
        else:
            with pytest.raises(CorruptRecord):
                table(log, tag="eu", skips=True)


def test_a_single_record_is_checked_whether_it_is_wanted_or_not(tmp_path: Path) -> None:
    with quick_log(tmp_path / "log") as log:
        for body in (b"0", b"damaged", b"2"):
            log.append(body, tag="us")
        block = Path(log.inspect().blocks[0].path)
    block.write_bytes(block.read_bytes().replace(b"damaged", b"DAMAGED"))

    with quick_log(tmp_path / "log", read_only=True) as log, pytest.raises(CorruptRecord):
        table(log, tag="eu", skips=True)


def test_a_malformed_filter_is_refused_immediately(singles: Log) -> None:
    with pytest.raises(MalformedFilter):
        singles.scan(tag="a..b")


def test_a_tag_that_many_messages_have_is_matched_once(singles: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []

    def matches(_: TagFilter, tag: str) -> bool:
        matched.append(tag)
        return True

    monkeypatch.setattr(TagFilter, "matches", matches)

    assert len(numbers(singles, 0, 320, tag="#")) == 320
    assert sorted(matched) == ["eu.de", "us"]


# --- Which blocks ---


def test_blocks_outside_the_range_are_not_even_opened(singles: Log, clock: SimulatedClock) -> None:
    first, *_, last = block_files(singles)
    first.unlink()
    last.unlink()
    singles.close()
    with quick_log(singles.path, read_only=True) as log:
        block = log.inspect().blocks[1]

        scanned = numbers(log, block.base_number, block.end_number)

        assert scanned == list(range(block.base_number, block.end_number))
        with pytest.raises(CorruptRecord, match="missing"):
            numbers(log)


def test_blocks_outside_the_time_are_not_even_opened(tmp_path: Path, clock: SimulatedClock) -> None:
    with quick_log(tmp_path, clock=clock, block_size=4096) as log:
        for _ in range(300):
            log.append(b"x" * 50)
            clock.pass_ns(1_000_000)
        blocks = log.inspect().blocks
        first, *_, last = block_files(log)
    first.unlink()
    last.unlink()
    middle = (blocks[2].base_number + blocks[2].end_number) // 2
    with quick_log(tmp_path, read_only=True) as log:
        scanned = numbers(log, since=START_US + middle * 1000, until=START_US + (middle + 3) * 1000)

    assert scanned == [middle, middle + 1, middle + 2]


# --- Batches, and where their bytes lie ---


def body_addresses(batch: pa.RecordBatch) -> tuple[int, int]:
    _, _, data = batch.column("body").buffers()
    return data.address, data.address + data.size


def map_addresses(log: Log) -> list[tuple[int, int]]:
    """Returns the addresses at which the open blocks of the log are mapped."""
    views = [np.frombuffer(block.view, np.uint8) for block in log._files._blocks.values()]
    return [(view.ctypes.data, view.ctypes.data + len(view)) for view in views]


def test_the_bodies_of_large_batches_are_not_copied(batches: Log) -> None:
    scanned = list(batches.scan(columns=["body", "number"]))

    maps = map_addresses(batches)
    assert [batch.num_rows for batch in scanned] == [1000] * 8
    for batch in scanned:
        start, end = body_addresses(batch)
        assert any(low <= start and end <= high for low, high in maps)


def test_small_batches_are_put_together(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        for start in range(0, 5000, 10):
            log.append_many([b"%d" % number for number in range(start, start + 10)])
            if start == 2000:
                log.append(b"alone")

        scanned = list(log.scan(columns=["number", "body"]))

    assert [batch.num_rows for batch in scanned] == [5001]


@pytest.mark.parametrize("tags", [None, ["eu.de", "us"] * 500])
def test_a_caller_can_ask_for_larger_arrow_batches(tmp_path: Path, tags: list[str] | None) -> None:
    with quick_log(tmp_path / "log") as log:
        for start in range(0, 8000, 1000):
            log.append_many([b"%05d" % number for number in range(start, start + 1000)], tags=tags)

        apart, together = list(log.scan()), list(log.scan(rows_min=10_000))

        assert [batch.num_rows for batch in together] == [8000]
        assert len(apart) == 8
        assert pa.Table.from_batches(together) == pa.Table.from_batches(apart).combine_chunks()


def test_single_records_come_in_large_batches(singles: Log) -> None:
    sizes = [batch.num_rows for batch in singles.scan()]

    assert sum(sizes) == 2000
    assert len(sizes) <= 2 * len(block_files(singles))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_no_batch_takes_much_memory_however_large_the_messages(tmp_path: Path, compression: str) -> None:
    body, count = bytes(1 << 20), 40
    with quick_log(tmp_path, compression=compression) as log:
        for _ in range(count):
            log.append(body)
        log.append_many([body] * count)

        sizes = [batch.nbytes for batch in log.scan(columns=["body"])]

    assert sum(sizes) >= 2 * count * len(body)
    assert max(sizes) < scan.SIZE_TARGET + 2 * len(body)


def test_batches_outlive_the_log_and_its_files(batches: Log) -> None:
    scanned = list(batches.scan())
    batches.retire(before=batches.end)
    batches.close()
    for file in block_files(batches):
        file.unlink()

    bodies = [body for batch in scanned for body in batch.column("body").to_pylist()]

    assert bodies == [b"%05d" % number for number in range(8000)]


def test_a_scan_that_is_not_read_to_its_end_does_no_harm(batches: Log) -> None:
    next(batches.scan())

    assert batches.append(b"more").number == 8000


# --- Checks ---


def test_the_head_that_numpy_sees_is_the_one_that_the_layout_declares() -> None:
    data = RECORD_HEAD.pack(*range(1, 15))

    (head,) = np.frombuffer(data, HEAD)

    assert HEAD.itemsize == RECORD_HEAD.size
    assert RecordHead(*head.tolist()) == RecordHead(*RECORD_HEAD.unpack(data))


def test_groups_that_were_closed_are_checked_as_a_whole(singles: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []

    def count_matching(_: object, positions: Sequence[int], heads: object) -> int:
        checked.append(len(positions))
        return len(positions)

    monkeypatch.setattr(single_runs, "count_matching", count_matching)
    block_end = singles.inspect().blocks[0].end_number // 64 * 64

    numbers(singles, 0, block_end)

    assert checked == []


def entries_of(file: Path) -> Iterator[int]:
    """Returns the positions of the entries of the index messages of a block."""
    data = file.read_bytes()
    position = data.find(LABEL_INDEX)
    while position >= 0:
        start = position - META_HEAD.size + len(LABEL_INDEX) + META_HEAD.size
        (size_word, _) = META_HEAD.unpack_from(data, position - 4)
        yield from range(start, position + (size_word & 0xFFFF) - 4, INDEX_ENTRY.size)
        position = data.find(LABEL_INDEX, position + 4)


@pytest.mark.parametrize(
    "change",
    [
        lambda position, checksum: (position, 0),
        lambda position, checksum: (position, checksum ^ 1),
        lambda position, checksum: (position + 8, checksum),
        lambda position, checksum: (position + 1, checksum),
        lambda position, checksum: (0, 0),
        lambda position, checksum: (0xFFFFFFF8, checksum),
        lambda position, checksum: (position - 160, checksum),
    ],
)
@pytest.mark.parametrize("which", [slice(None), slice(2, 3), slice(0, 1), slice(1, None, 3)])
def test_an_index_that_is_wrong_costs_time_and_no_message(
    singles: Log, change: Callable[[int, int], tuple[int, int]], which: slice
) -> None:
    singles.close()
    for file in block_files(singles):
        data = bytearray(file.read_bytes())
        for at in list(entries_of(file))[which]:
            position, checksum = INDEX_ENTRY.unpack_from(data, at)
            if position:
                INDEX_ENTRY.pack_into(data, at, *(value & 0xFFFFFFFF for value in change(position, checksum)))
        file.write_bytes(data)

    with quick_log(singles.path, read_only=True) as log:
        assert table(log)["body"].to_pylist() == [b"%05d" % number for number in range(2000)]
        assert [message.number for message in log.read(0, limit=2000)] == list(range(2000))


@pytest.mark.parametrize("place", [0, 4, 8, 16, 24, 32, 36, 40, 48, 52, 56, 60])
@pytest.mark.parametrize("number", [0, 1, 63, 64, 100, 1000])
def test_damage_to_a_single_record_is_reported_with_its_position(singles: Log, number: int, place: int) -> None:
    message = singles.at(number)
    assert message is not None
    block = next(block for block in singles.inspect().blocks if block.base_number <= number < block.end_number)
    singles.close()
    position = message.offset - block.base_offset
    data = bytearray(Path(block.path).read_bytes())
    data[position + place] ^= 0x10
    Path(block.path).write_bytes(data)

    with quick_log(singles.path, read_only=True) as log:
        for look in (lambda: table(log), lambda: log.read(0, limit=2000), lambda: numbers(log, number, number + 30)):
            with pytest.raises(CorruptRecord) as error:
                look()
            assert error.value.path == block.path
            assert error.value.position == position
        later = numbers(log, block.end_number, 2000)
        assert later == list(range(block.end_number, 2000))


@pytest.mark.parametrize("place", [0, 4, 8, 16, 24, 32, 36, 40, 48, 52, 56, 100, 500, 5000, 9000])
@pytest.mark.parametrize("number", [0, 1000, 2000])
def test_damage_to_a_batch_is_reported_with_its_position(batches: Log, number: int, place: int) -> None:
    message = batches.at(number)
    assert message is not None
    block = next(block for block in batches.inspect().blocks if block.base_number <= number < block.end_number)
    batches.close()
    position = message.offset - block.base_offset
    data = bytearray(Path(block.path).read_bytes())
    data[position + place] ^= 0x10
    Path(block.path).write_bytes(data)

    with quick_log(batches.path, read_only=True) as log:
        for look in (lambda: table(log), lambda: log.read(0, limit=8000), lambda: numbers(log, number, number + 1500)):
            with pytest.raises(CorruptRecord) as error:
                look()
            assert (error.value.path, error.value.position) == (block.path, position)


@pytest.mark.parametrize("fault", list(MALFORMED))
@pytest.mark.parametrize("kind", ["singles", "batches"])
def test_a_record_that_checks_but_is_malformed_is_reported_with_its_position(
    tmp_path: Path, fault: str, kind: str
) -> None:
    malformed = MALFORMED[fault]
    with quick_log(tmp_path) as log:
        fill(log, kind)
        # A count of no messages would not move the log on.
        receipt = log.append_record(malformed._replace(message_count=malformed.message_count or 1))
        fill(log, kind)

        for look in (lambda: table(log), lambda: log.read(0, limit=1 << 20)):
            with pytest.raises(CorruptRecord) as error:
                look()
            assert error.value.position == receipt.offset
        assert len(table(log, 0, receipt.number)) == receipt.number
        if fault not in ("no message", "ends for another count"):
            assert len(table(log, receipt.number + malformed.message_count)) == receipt.number


def fill(log: Log, kind: str) -> None:
    if kind == "singles":
        for number in range(150):
            log.append(b"%d" % number, headers={"n": b"%d" % number}, tag="a")
    else:
        for _ in range(3):
            log.append_many([b"a", b"bb"], tag="a")


# --- Other kinds of logs ---


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_messages_are_unpacked(tmp_path: Path, compression: str) -> None:
    bodies = [b"%d" % number * 100 for number in range(100)]
    with quick_log(tmp_path, compression=compression) as log:
        for body in bodies:
            log.append(body)
        log.append_many(bodies, keys=[b"k"] * 100)
        log.append_many(bodies)

        rows = table(log, columns=["body", "key"])

    assert rows["body"].to_pylist() == bodies * 3
    assert rows["key"].to_pylist() == [None] * 100 + [b"k"] * 100 + [None] * 100


def test_a_log_of_version_1(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        for number in range(100):
            log.append(b"%d" % number, tag=("a", "b")[number % 2], id=str(number), corr_offset=number)
        everything = table(log)

        assert everything["body"].to_pylist() == [b"%d" % number for number in range(100)]
        assert everything["id"].to_pylist() == [str(number) for number in range(100)]
        assert everything["corr_offset"].to_pylist() == list(range(100))
        assert numbers(log, 30, 40, tag="b") == [31, 33, 35, 37, 39]


def test_records_of_several_processes_in_turn(tmp_path: Path) -> None:
    # After another writer, a process does not treat a group of single records as complete.
    with quick_log(tmp_path) as one, quick_log(tmp_path) as other:
        for number in range(0, 300, 3):
            one.append(b"%d" % number)
            one.append(b"%d" % (number + 1))
            other.append(b"%d" % (number + 2))

        assert table(one)["body"].to_pylist() == [b"%d" % number for number in range(300)]
        assert table(other)["number"].to_pylist() == list(range(300))


@pytest.mark.parametrize("batch_size", [1, 2, 63, 64, 65])
def test_batches_between_single_records(tmp_path: Path, batch_size: int) -> None:
    expected: list[bytes] = []
    with quick_log(tmp_path, block_size=BLOCK_SIZE) as log:
        for turn in range(60):
            singles = [b"%d-%d" % (turn, number) for number in range(turn)]
            for body in singles:
                log.append(body)
            batch = [b"%d+%d" % (turn, number) for number in range(batch_size)]
            log.append_many(batch)
            expected += singles + batch

        assert table(log)["body"].to_pylist() == expected
        assert [message.body for message in log.read(0, limit=1 << 20)] == expected


def test_the_columns_are_fields_of_a_message() -> None:
    assert set(SCHEMA.names) < set(Message._fields)
