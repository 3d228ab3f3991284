"""Records that were packed elsewhere are appended by stamping them, and can be read unchanged to be
appended elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from warren.errors import BadInput, CorruptRecord, NumberRetired, TooLarge, UnsupportedByVersion
from warren.message import Message, Receipt
from warren.storage import Log
from warren.storage.format.record import Packed, pack_single


def contents(log: Log) -> list[tuple[object, ...]]:
    """Returns the content of the messages, without the fields that the log assigns."""
    return [_content(message) for message in log.read(log.first, limit=1 << 20)]


def _content(message: Message) -> tuple[object, ...]:
    return message.body, message.tag, message.key, message.id, dict(message.headers), message.corr_offset


def flip_byte(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def fill(log: Log) -> None:
    """Single messages, plain batches, and batches with all fields."""
    log.append(b"single", tag="t", key=b"k", id="i", headers={"h": b"v"}, corr_offset=7)
    log.append_many([b"%d" % row for row in range(200)])
    log.append_many([b"x", b"y"], tags=["a", ""], keys=[None, b"k"], ids=["1", ""], headers=[{"h": b""}, None])
    log.append(b"")
    log.append_many([bytes(500)] * 40, tag="shared", marker=b"mark")


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("durability", ["commit", "os"])
def test_records_of_one_log_are_appended_to_another(tmp_path: Path, compression: str, durability: str) -> None:
    with (
        Log.open(tmp_path / "a", compression=compression, durability="os", block_size=16 << 10) as source,
        Log.open(tmp_path / "b", durability=durability) as target,
    ):
        fill(source)
        target.append(b"before")

        numbers = target.append_packed(list(source.packed(0, source.end)))

        assert numbers == range(1, 1 + source.end)
        assert contents(target)[1:] == contents(source)
        assert [marked.marker for marked in target.markers(0)] == [b"mark"] * len(list(source.markers(0)))
        assert target.verify().messages == target.end


def test_an_arrow_batch_is_appended(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a", durability="os") as source, Log.open(tmp_path / "b") as target:
        fill(source)

        for batch in source.scan():
            target.append_arrow(batch, marker=b"arrow")

        assert contents(target) == contents(source)
        assert {marked.marker for marked in target.markers(0)} == {b"arrow"}


def test_an_empty_batch_appends_nothing(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append(b"")

        assert log.append_packed([]) == range(1, 1)
        assert log.append_arrow(pa.record_batch({"body": pa.array([], pa.binary())})) == range(1, 1)
        assert log.end == 1


def test_a_range_that_cuts_a_record_is_refused(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append_many([b"a", b"b", b"c"])
        log.append(b"d")

        with pytest.raises(BadInput, match="starts with message 0"):
            list(log.packed(1, 4))
        with pytest.raises(BadInput, match="starts with message 0"):
            list(log.packed(0, 2))
        assert [packed.message_count for packed in log.packed(0, 100)] == [3, 1]
        assert [packed.message_count for packed in log.packed(3, 4)] == [1]


def test_reading_retired_messages_raises(tmp_path: Path) -> None:
    with Log.open(tmp_path, block_size=4 << 10) as log:
        for _ in range(20):
            log.append(bytes(1000))
        log.retire(before=10)

        with pytest.raises(NumberRetired):
            log.packed(0, 20)


@pytest.mark.parametrize("durability", ["commit", "os", "interval:10ms"])
@pytest.mark.parametrize("exclusive", [True, False])
def test_records_appended_one_by_one_lie_as_those_appended_together(
    tmp_path: Path, durability: str, exclusive: bool
) -> None:
    bodies = [b"%d" % number * (number % 50) for number in range(300)]
    packed = [pack_single(body) for body in bodies]
    options: dict[str, Any] = {"durability": durability, "exclusive": exclusive, "block_size": 16 << 10}
    with Log.open(tmp_path / "a", **options) as single, Log.open(tmp_path / "b", **options) as together:
        numbers = [single.append_packed([each]) for each in packed[:150]]
        receipts = [receipt for each in packed[150:] for receipt in single.settle([[each]])]
        together.append_packed(packed)

        assert [each.start for each in numbers] == list(range(150))
        assert [receipt.number for receipt in receipts if isinstance(receipt, Receipt)] == list(range(150, 300))
        assert contents(single) == contents(together)
        assert single.verify() == together.verify()
        assert [single.at(number) is not None for number in range(300)] == [True] * 300


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_two_that_append_packed_records_in_turn_miss_none(tmp_path: Path, durability: str) -> None:
    with Log.open(tmp_path, durability=durability) as one, Log.open(tmp_path, durability=durability) as other:
        for number in range(200):
            log = other if number % 3 == 1 else one
            log.settle([[pack_single(b"%d" % number)]])

        assert [message.body for message in one.read(0)] == [b"%d" % number for number in range(200)]
        assert one.verify() == other.verify()


def test_version_1_gives_no_packed_records_and_takes_no_arrow_batches(tmp_path: Path) -> None:
    with Log.open(tmp_path, version=1) as log:
        log.append(b"a")

        for attempt in (lambda: log.packed(0, 1), lambda: log.append_arrow(pa.record_batch({"body": [b""]}))):
            with pytest.raises(UnsupportedByVersion):
                attempt()


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_version_1_takes_packed_records_apart(tmp_path: Path, durability: str, compression: str) -> None:
    with (
        Log.open(tmp_path / "a", compression=compression) as source,
        Log.open(tmp_path / "b", version=1, durability=durability) as target,
    ):
        source.append(b"single", tag="a.b", id="one", corr_offset=7)
        tags, ids = ["a", "", "b.c"], ["x", "", "z"]
        source.append_many([b"1" * 500, b"", b"3"], tags=tags, ids=ids, corr_offsets=[4, -1, 0], marker=b"m")
        source.append_many([b"shared"] * 2, tag="t")
        packed = list(source.packed(0, 6))

        appended = target.append_packed(packed)
        receipt = target.append_record(packed[1])

        assert appended == range(6)
        assert (receipt.number, target.end) == (6, 9)
        expected = list(map(_content, source.read(0)))
        assert list(map(_content, target.read(0))) == expected + expected[1:4]
        assert list(target.markers(0)) == []
        assert target.append_packed([]) == range(9, 9)


def test_version_1_settles_each_put_or_gives_it_its_own_error(tmp_path: Path) -> None:
    with Log.open(tmp_path, version=1) as log:
        torn = Packed(pack_single(b"torn").payload, 0, 1)
        puts = [[pack_single(b"a")], [pack_single(b"b"), pack_single(b"c", key=b"k")], [torn], [pack_single(b"d")]]

        first, keyed, damaged, last = log.settle(puts)

        assert isinstance(first, Receipt)
        assert isinstance(last, Receipt)
        assert (first.number, last.number) == (0, 1)
        assert isinstance(keyed, UnsupportedByVersion)
        assert isinstance(damaged, BadInput)
        assert [message.body for message in log.read(0)] == [b"a", b"d"]


def test_version_1_changes_nothing_if_one_of_several_packed_messages_does_not_fit(tmp_path: Path) -> None:
    with Log.open(tmp_path, version=1) as log:
        for refused in (pack_single(b"b", headers={"a": b"1"}), pack_single(b"b", id="x" * 40)):
            with pytest.raises(BadInput):
                log.append_packed([pack_single(b"a"), refused])

        assert log.end == 0


def test_a_record_that_fits_no_block_changes_nothing(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a") as source, Log.open(tmp_path / "b", block_size=4 << 10) as target:
        source.append(b"small")
        source.append(bytes(8 << 10))

        with pytest.raises(TooLarge):
            target.append_packed(list(source.packed(0, 2)))

        assert target.end == 0


@pytest.mark.parametrize("position_from_end", [1, 30, 60])
def test_a_record_with_a_wrong_checksum_is_not_handed_out(tmp_path: Path, position_from_end: int) -> None:
    with Log.open(tmp_path, durability="os") as log:
        log.append(b"good")
        log.append_many([b"a" * 50, b"b" * 50])
    (block,) = tmp_path.glob("*.block")
    end = block.read_bytes().rindex(b"b" * 50) + 50
    flip_byte(block, end - position_from_end)

    with Log.open(tmp_path, read_only=True) as log:
        records = log.packed(0, 3)

        assert next(records).message_count == 1
        with pytest.raises(CorruptRecord):
            next(records)


# --- Markers that are stepped over ---


def test_unwanted_markers_are_skipped_unread(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os") as log:
        log.append_many([b"event"], marker=b"event 1")
        log.append_many([b"row" * 100, b"damaged!"], marker=b"row 1")
        log.append(b"single")
        log.append_many([b"event"], marker=b"event 2")
        log.append_many([b"plain"])
        log.append_many([b"row"], marker=b"row 2")
    (block,) = tmp_path.glob("*.block")
    flip_byte(block, block.read_bytes().index(b"damaged!"))

    with Log.open(tmp_path, read_only=True) as log:
        markers = list(log.markers(0, b"row "))

        assert [(marked.number, marked.marker) for marked in markers] == [(0, b"event 1"), (4, b"event 2")]
        with pytest.raises(CorruptRecord):
            list(log.markers(0))


def test_compressed_records_are_unpacked_for_their_marker(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os", compression="zstd") as log:
        log.append_many([bytes(1000)], marker=b"row 1")
        log.append_many([bytes(1000)], marker=b"event")

        assert [marked.marker for marked in log.markers(0, b"row ")] == [b"event"]
