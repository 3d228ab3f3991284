"""Appending: messages come back unchanged, one by one or together, in both versions."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import BadInput, UnsupportedByVersion
from warren.message import Message, Receipt
from warren.storage import Log

NOW_US = START_NS // 1000
DURABILITIES = ("commit", "os", "interval:50ms")


@pytest.fixture(params=DURABILITIES)
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- One by one ---


def test_every_field_of_a_message_comes_back(tmp_path: Path, durability: str) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, clock=clock, durability=durability, topic="orders", partition=3) as log:
        headers = {"trace": b"1", "ü": b""}

        receipt = log.append(b"body", tag="eu.de", key=b"key", headers=headers, id="id-1", corr_offset=40)

        assert receipt == Receipt(0, receipt.offset, NOW_US, "id-1")
        assert log.at(0) == Message(
            0, receipt.offset, 3, "orders", NOW_US, "id-1", "eu.de", b"key", headers, 40, b"body", 0
        )


def test_every_field_of_a_version_1_message_comes_back(tmp_path: Path, durability: str) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, version=1, clock=clock, durability=durability, topic="orders", partition=3) as log:
        receipt = log.append(b"body", tag="eu.de", id="id-1", corr_offset=40)

        assert receipt == Receipt(0, 0, NOW_US, "id-1")
        assert log.at(0) == Message(0, 0, 3, "orders", NOW_US, "id-1", "eu.de", None, {}, 40, b"body", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_that_were_not_passed_are_empty(tmp_path: Path, version: int, durability: str) -> None:
    with quick_log(tmp_path, version=version, durability=durability, clock=SimulatedClock()) as log:
        receipt = log.append(b"")

        assert receipt.id == ""
        assert log.at(0) == Message(0, receipt.offset, 0, "", NOW_US, "", "", None, {}, -1, b"", 0)


def test_an_empty_key_is_not_the_same_as_no_key(tmp_path: Path, durability: str) -> None:
    with quick_log(tmp_path, durability=durability) as log:
        log.append(b"a", key=b"")
        log.append(b"b", key=None)
        log.append_many([b"c", b"d"], keys=[b"", None])

        assert [message.key for message in log.read(0)] == [b"", None, b"", None]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("make", [bytearray, memoryview])
def test_a_body_may_be_any_kind_of_bytes(tmp_path: Path, version: int, durability: str, make: Any) -> None:
    with quick_log(tmp_path, version=version, durability=durability) as log:
        log.append(make(b"one"))
        log.append(make(b"two"), tag="t")
        log.append_many([make(b"three")])

        assert [message.body for message in log.read(0)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_receipt_has_the_position_of_the_message(tmp_path: Path, version: int, durability: str) -> None:
    clock = SimulatedClock(START_NS + 123_456_789)
    with quick_log(tmp_path, version=version, durability=durability, clock=clock, block_size=4096) as log:
        receipts = []
        for number in range(300):
            clock.pass_ns(1_234_567)
            receipts.append(log.append(b"%d" % number, id=f"id-{number}"))

        stored = [Receipt(each.number, each.offset, each.timestamp, each.id) for each in log.read(0)]

        assert receipts == stored
        assert len(log.inspect().blocks) > 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clock_that_is_set_back_does_not_set_back_the_log(tmp_path: Path, version: int, durability: str) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, version=version, durability=durability, clock=clock, block_size=4096) as log:
        log.append(b"before")

        clock.set_back_ns(10**12)
        receipts = [log.append(bytes(900)) for _ in range(10)]
        log.append_many([b"a", b"b"])

        assert {receipt.timestamp for receipt in receipts} == {NOW_US}
        assert {message.timestamp for message in log.read(0)} == {NOW_US}
    with quick_log(tmp_path, durability=durability, clock=clock) as log:
        assert log.append(b"after").timestamp == NOW_US


# --- Together ---


def test_every_column_of_a_batch_comes_back(tmp_path: Path, durability: str) -> None:
    with quick_log(tmp_path, durability=durability, clock=SimulatedClock(), topic="orders", partition=3) as log:
        log.append(b"before")

        numbers = log.append_many(
            [b"one", b"", b"three"],
            tags=["eu.de", "", "eu.de"],
            keys=[b"k", None, b""],
            ids=["id-1", "", "id-3"],
            headers=[{"a": b"1", "b": b""}, None, {}],
            corr_offsets=[7, -1, 2**62],
        )

        assert numbers == range(1, 4)
        offset = log.read(1)[0].offset
        assert log.read(1) == [
            Message(1, offset, 3, "orders", NOW_US, "id-1", "eu.de", b"k", {"a": b"1", "b": b""}, 7, b"one", 0),
            Message(2, offset, 3, "orders", NOW_US, "", "", None, {}, -1, b"", 0),
            Message(3, offset, 3, "orders", NOW_US, "id-3", "eu.de", b"", {}, 2**62, b"three", 0),
        ]


def test_every_column_of_a_version_1_batch_comes_back(tmp_path: Path, durability: str) -> None:
    with quick_log(tmp_path, version=1, durability=durability, clock=SimulatedClock()) as log:
        numbers = log.append_many([b"one", b""], tags=["eu.de", ""], ids=["id-1", ""], corr_offsets=[7, -1])

        assert numbers == range(2)
        first, second = log.read(0)
        assert first == Message(0, 0, 0, "", NOW_US, "id-1", "eu.de", None, {}, 7, b"one", 0)
        assert second == Message(1, second.offset, 0, "", NOW_US, "", "", None, {}, -1, b"", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_one_tag_for_all_is_that_of_each(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append_many([b"one", b"two"], tag="eu.de")

        assert [message.tag for message in log.read(0)] == ["eu.de", "eu.de"]


def test_a_batch_is_one_record_in_version_2(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append_many([b"one", b"two", b"three"])

        assert log.verify().records == 1
        assert len({message.offset for message in log.read(0)}) == 1


@pytest.mark.parametrize(
    "sizes",
    [[0, 0, 0], [5, 5, 5], [7], [0], [5, 1, 5, 0, 5], [1, 2, 3, 4], [100] * 1000, [100] * 999 + [101], [300, 0] * 500],
)
def test_bodies_and_keys_of_any_sizes_come_back(tmp_path: Path, sizes: list[int]) -> None:
    bodies = [b"%d" % (number % 10) * size for number, size in enumerate(sizes)]
    with quick_log(tmp_path) as log:
        log.append_many(bodies)
        log.append_many(bodies, keys=bodies, ids=["i" * (len(body) % 30) for body in bodies])

        messages = log.read(0, limit=10_000)

        assert [message.body for message in messages] == bodies * 2
        assert [message.key for message in messages] == [None] * len(bodies) + bodies
        log.verify()


def test_a_body_of_items_larger_than_a_byte_has_no_place_in_a_batch(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        with pytest.raises(BadInput, match="each body must be bytes"):
            log.append_many([b"good", memoryview(array("I", [1, 2]))])  # type: ignore[list-item]

        assert log.append_many([b"good"]) == range(1)


def test_a_batch_is_single_records_in_version_1(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1) as log:
        log.append_many([b"one", b"two", b"three"])

        assert log.verify().records == 3
        assert len({message.offset for message in log.read(0)}) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_batch_appends_nothing(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")

        numbers = log.append_many([])

        assert numbers == range(1, 1)
        assert log.end == 1


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_messages_come_back_and_take_less_room(tmp_path: Path, compression: str) -> None:
    body = b"compress me " * 100
    with quick_log(tmp_path, compression=compression) as log:
        single = log.append(body, tag="t", key=b"k", headers={"a": b"1"}, id="i")
        log.append_many([body] * 3, tags=["a", "b", "c"], keys=[b"x", None, b""])

        messages = log.read(0)
        end = log.append(b"end").offset

        assert [message.body for message in messages] == [body] * 4
        assert [message.tag for message in messages] == ["t", "a", "b", "c"]
        assert [message.key for message in messages] == [b"k", b"x", None, b""]
        assert (messages[0].headers, messages[0].id) == ({"a": b"1"}, "i")
        assert messages[1].offset - single.offset < len(body) // 4
        assert end - messages[1].offset < len(body) // 2


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_data_that_would_not_shrink_is_stored_uncompressed(tmp_path: Path, compression: str) -> None:
    noise = bytes(place * 167 % 256 for place in range(200))
    with quick_log(tmp_path / "plain") as plain, quick_log(tmp_path / "small", compression=compression) as log:
        for each in (plain, log):
            each.append(noise)
            each.append(b"short")
            each.append_many([noise])

        assert [message.body for message in log.read(0)] == [noise, b"short", noise]
        assert log.inspect().blocks[0].end_offset == plain.inspect().blocks[0].end_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_larger_than_a_block_is_spread_over_blocks(tmp_path: Path, version: int) -> None:
    bodies = [b"%d" % number * 100 for number in range(100)]
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        numbers = log.append_many(bodies)

        assert numbers == range(100)
        assert [message.body for message in log.read(0)] == bodies
        assert len(log.inspect().blocks) > 3


def test_small_messages_fill_as_many_records_as_they_need(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=4096) as log:
        log.append_many([b""] * 5000)
        log.append_many([b""] * 100, keys=[b"k" * 100] * 100)
        log.append_many([b""] * 100, headers=[{"name": bytes(100)}] * 100)
        log.append_many([b""] * 200, ids=["i" * 40] * 200)
        log.append_many([b""] * 100, tags=[f"{number:0128}" for number in range(100)])
        log.append_many([b""] * 2000, corr_offsets=range(2000))

        assert log.end == 7500
        assert log.at(5099).key == b"k" * 100  # type: ignore[union-attr]
        assert log.verify().messages == 7500


def test_a_batch_fits_one_block_though_the_last_one_has_little_room(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        log.append(bytes(3000))

        log.append_many([bytes(300)] * 5)

        assert [block.base_number for block in log.inspect().blocks] == [0, 1]


# --- Refused appends ---


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("bodies", [[b"one"], []])
@pytest.mark.parametrize("column", ["tags", "keys", "ids", "headers", "corr_offsets"])
def test_a_column_of_another_length_is_refused(tmp_path: Path, version: int, bodies: list[bytes], column: str) -> None:
    values = {"tags": "", "keys": None, "ids": "", "headers": None, "corr_offsets": -1}
    with quick_log(tmp_path, version=version) as log:
        with pytest.raises(BadInput, match=f"{column} has 2 entries for {len(bodies)} bodies"):
            log.append_many(bodies, **{column: [values[column]] * 2})  # type: ignore[arg-type]

        assert log.end == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_one_tag_for_all_and_tags_for_each_exclude_each_other(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        with pytest.raises(BadInput, match="either tag, for all messages, or tags"):
            log.append_many([b"one"], tag="eu", tags=["eu"])

        assert log.end == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", ["text", 7, None, ["a"], [1]])
def test_a_body_that_is_not_bytes_is_refused(tmp_path: Path, version: int, durability: str, body: Any) -> None:
    with quick_log(tmp_path, version=version, durability=durability) as log:
        log.append(b"before")

        with pytest.raises(BadInput, match="body: expected bytes"):
            log.append(body)
        with pytest.raises(BadInput, match="body: expected bytes"):
            log.append(body, tag="t")
        with pytest.raises(BadInput, match=r"bodies\[1\]: expected bytes"):
            log.append_many([b"good", body])

        assert log.end == 1


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "a tag that is no text": {"tag": b"eu"},
    "a tag that is no Unicode": {"tag": "\ud800"},
    "an id that is no text": {"id": 7},
    "an id that is no Unicode": {"id": "\ud800"},
    "a key that is text": {"key": "k"},
    "a header that is text": {"headers": {"a": "1"}},
    "a header name that is no text": {"headers": {1: b"1"}},
    "a header name that is no Unicode": {"headers": {"\ud800": b"1"}},
    "a corr_offset too large": {"corr_offset": 2**63},
    "a corr_offset below none": {"corr_offset": -2},
    "a corr_offset that is text": {"corr_offset": "7"},
}


@pytest.mark.parametrize("fields", BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
def test_a_field_of_the_wrong_kind_is_refused(tmp_path: Path, durability: str, fields: dict[str, Any]) -> None:
    with quick_log(tmp_path, durability=durability) as log:
        log.append(b"before")

        with pytest.raises(BadInput):
            log.append(b"body", **fields)
        with pytest.raises(BadInput):
            log.append_many([b"body"], **_as_columns(fields))

        assert log.end == 1
        assert log.append(b"after").number == 1


def _as_columns(fields: dict[str, Any]) -> dict[str, Any]:
    plural = {"headers": "headers"}
    return {plural.get(name, name + "s"): [value] for name, value in fields.items()}


@pytest.mark.parametrize(
    ("fields", "feature"), [({"key": b"k"}, "a key"), ({"key": b""}, "a key"), ({"headers": {"a": b"1"}}, "headers")]
)
def test_version_1_has_no_place_for_keys_and_headers(tmp_path: Path, fields: dict[str, Any], feature: str) -> None:
    with quick_log(tmp_path, version=1) as log:
        with pytest.raises(UnsupportedByVersion, match=f"{feature}: .* version 1; use version 2") as refused:
            log.append(b"body", **fields)
        with pytest.raises(UnsupportedByVersion):
            log.append_many([b"body"], **_as_columns(fields))

        assert (refused.value.what, refused.value.version) == (feature, 1)
        assert log.end == 0


def test_version_1_has_no_place_for_compression(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedByVersion, match="compression"):
        quick_log(tmp_path / "new", version=1, compression="zstd")

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_message_leaves_room_for_the_next(tmp_path: Path, version: int) -> None:
    """No part of it is written, also if it comes in the middle of a batch."""
    with quick_log(tmp_path, version=version) as log:
        before = _content(log)

        with pytest.raises(BadInput):
            log.append_many([b"good", b"bad"], tags=["ok", "x" * 129])

        assert _content(log) == before
        assert log.append(b"next").number == 0


def _content(log: Log) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path(log.path).iterdir())}
