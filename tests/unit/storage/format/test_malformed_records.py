"""Records with right checksums and impossible content are damage, and never messages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from tests.support.crafted import BODIES, MALFORMED, area, columns, packed, write_log
from tests.support.fakes import quick_log
from warren.errors import CorruptRecord
from warren.storage import Log
from warren.storage.format.record import Packed

WHOLE: dict[str, Packed] = {
    "a single message": packed(b"body"),
    "a batch": columns(BODIES, count=2),
    "a batch with a section of another kind": columns([*BODIES, (14, b"whatever")], count=2),
}

READS: dict[str, Callable[[Log], object]] = {
    "at": lambda log: [log.at(number) for number in range(log.end)],
    "read": lambda log: log.read(0),
    "read filtered": lambda log: log.read(0, tag="#"),
    "backwards": lambda log: list(log.backwards()),
    "last": lambda log: log.last(3),
    "reader": lambda log: log.reader("billing").read(),
}


@pytest.mark.parametrize("record", WHOLE.values(), ids=WHOLE.keys())
def test_a_record_made_by_hand_is_read(tmp_path: Path, record: Packed) -> None:
    write_log(tmp_path, [packed(b"before"), record, packed(b"after")])

    with quick_log(tmp_path) as log:
        bodies = [message.body for message in log.read(0)]
        log.verify()

    assert (bodies[0], bodies[-1]) == (b"before", b"after")
    assert bodies[1:-1] in ([b"body"], [b"a", b"bb"])


@pytest.mark.parametrize("record", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_record_is_damage_at_its_place(tmp_path: Path, record: Packed) -> None:
    before = packed(b"before", tag_size=3)
    block = write_log(tmp_path, [before, record, packed(b"after", tag_size=3)])
    with quick_log(tmp_path, read_only=True) as log:
        first = log.read(0, limit=1)[0]
        place = first.offset + (36 + len(before.payload) + 7) // 8 * 8
        assert first.body == b"ore"

        for name in ("at", "read", "backwards", "last"):
            with pytest.raises(CorruptRecord) as damage:
                READS[name](log)
            assert damage.value.path == str(block), name
            assert damage.value.position == place or record.message_count == 0, name


@pytest.mark.parametrize("record", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_filter_does_not_hide_damage_that_it_has_to_read(tmp_path: Path, record: Packed) -> None:
    """Either messages of other records come, or damage: never a message that is not in the log."""
    write_log(tmp_path, [packed(b"before", tag_size=3), record, packed(b"after", tag_size=3)])

    with quick_log(tmp_path, read_only=True) as log:
        try:
            bodies = [message.body for message in log.read(0, tag="#")]
        except CorruptRecord:
            return

    assert bodies == [b"ore", b"er"]


def test_a_record_with_another_number_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, [packed(b"one"), packed(b"two"), packed(b"three")], wrong_numbers={1: 7})

    with quick_log(tmp_path, read_only=True) as log:
        with pytest.raises(CorruptRecord, match="message 7 was found where 1"):
            log.at(1)
        with pytest.raises(CorruptRecord, match="message 7 was found where 1"):
            log.read(0)
        with pytest.raises(CorruptRecord, match="message 7 "):
            log.verify()


@pytest.mark.parametrize("code", [1, 2])
def test_a_compressed_batch_that_unpacks_to_another_size_is_damage(tmp_path: Path, code: int) -> None:
    raw = area(BODIES)
    small = pyarrow.compress(raw, codec=("", "zstd", "lz4")[code], asbytes=True)
    good = packed(struct.pack("<I", len(raw)) + small, codec=1, compression=code, count=2)
    short = packed(struct.pack("<I", len(raw) + 8) + small, codec=1, compression=code, count=2)
    (tmp_path / "good").mkdir()
    (tmp_path / "short").mkdir()
    write_log(tmp_path / "good", [good])
    write_log(tmp_path / "short", [short])

    with quick_log(tmp_path / "good", read_only=True) as log:
        assert [message.body for message in log.read(0)] == [b"a", b"bb"]
    with quick_log(tmp_path / "short", read_only=True) as log, pytest.raises(CorruptRecord):
        log.read(0)


V1_HEAD = 204


def _v1_log(path: Path) -> Path:
    with quick_log(path, version=1) as log:
        for number in range(3):
            log.append(b"%d" % number, tag="eu", id="i")
    return next(path.glob("*.zbus"))


@pytest.mark.parametrize(
    ("position", "data", "reason"),
    [
        (0, b"\1", "the record says offset"),
        (16, b"\x28", "does not end where its length says"),
        (16, b"\2", None),
        (20, b"x", "does not end where its length says"),
        (17, b"\xff", "utf-8"),
        (72, b"\x80", "does not end where its length says"),
        (80, b"x", "does not end where its length says"),
        (73, b"\xff", "utf-8"),
        (200, b"\xff", "a body of"),
        (200, b"\0\1\0\0", "a body of"),
    ],
)
def test_a_version_1_record_with_an_impossible_structure_is_damage(
    tmp_path: Path, position: int, data: bytes, reason: str | None
) -> None:
    block = _v1_log(tmp_path)
    content = bytearray(block.read_bytes())
    start = V1_HEAD + 1
    content[start + position : start + position + len(data)] = data
    block.write_bytes(content)

    with quick_log(tmp_path, read_only=True) as log:
        if reason is None:
            assert [message.id for message in log.read(0)] == ["i", "i\0", "i"]
            return
        with pytest.raises(CorruptRecord, match=reason) as damage:
            log.at(1)
        with pytest.raises(CorruptRecord):
            log.verify()

    assert (damage.value.path, damage.value.position) == (str(block), start)


def test_a_version_1_record_with_another_number_is_damage(tmp_path: Path) -> None:
    block = _v1_log(tmp_path)
    content = bytearray(block.read_bytes())
    content[V1_HEAD + 1 + 71] = 7
    block.write_bytes(content)

    with quick_log(tmp_path, read_only=True) as log:
        with pytest.raises(CorruptRecord, match="message 7 was found where 1"):
            log.at(1)
        with pytest.raises(CorruptRecord, match="message 7"):
            log.verify()


def test_time_that_goes_back_is_damage(tmp_path: Path) -> None:
    block = _v1_log(tmp_path)
    content = bytearray(block.read_bytes())
    content[V1_HEAD + 1 + 8 : V1_HEAD + 1 + 16] = bytes(8)
    block.write_bytes(content)

    with quick_log(tmp_path, read_only=True) as log, pytest.raises(CorruptRecord, match="of time 0, but expected 1"):
        log.verify()
