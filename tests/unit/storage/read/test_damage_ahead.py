"""Damage is found when a read reaches it, and not before: the messages before it are returned."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import quick_log
from warren.errors import CorruptRecord
from warren.message import Message
from warren.storage import Log
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import PAYLOAD_AT, PLAIN_TABLE, RECORD_HEAD, SIZE_WORD, STAMP_AT

COUNT = 300
BATCH = 30
DAMAGED = 210
"""Far enough in that many single records before it are read together."""
WAYS: dict[str, Callable[[Log, int], list[Any]]] = {
    "at": lambda log, number: [log.at(number)],
    "read": lambda log, number: log.read(number, limit=1),
    "read filtered": lambda log, number: log.read(number, limit=1, tag="us"),
    "read bounded": lambda log, number: log.read(number, bytes_max=1),
    "backwards": lambda log, number: [next(log.backwards(number))],
    "scan": lambda log, number: next(log.scan(number, number + 1, columns=["number"]))[0].to_pylist(),
}
PLACES = {"size": 1, "stamp": STAMP_AT, "payload": RECORD_HEAD.size}
"""Bytes of a record that is damaged there."""


def append_singles(log: Log) -> None:
    for number in range(COUNT):
        log.append(b"%d" % number, tag="us", headers={"trace": b"1"})


def append_batches(log: Log) -> None:
    for start in range(0, COUNT, BATCH):
        log.append_many([b"%d" % number for number in range(start, start + BATCH)], tag="us")


@pytest.fixture(params=[append_singles, append_batches], ids=["singles", "batches"])
def messages(request: pytest.FixtureRequest, tmp_path: Path) -> list[Message]:
    """Those of a log in `tmp_path`, of one block, that is closed."""
    append: Callable[[Log], None] = request.param
    with quick_log(tmp_path) as log:
        append(log)
        return log.read(0, limit=COUNT)


def block_file(path: Path) -> Path:
    (file,) = path.glob("*.block")
    return file


def change(file: Path, position: int, data: bytes) -> None:
    with file.open("r+b") as block:
        block.seek(position)
        block.write(data)


def damage(path: Path, position: int) -> None:
    file = block_file(path)
    change(file, position, bytes([file.read_bytes()[position] ^ 0xFF]))


@pytest.fixture
def wounded(messages: list[Message], tmp_path: Path) -> Iterator[Log]:
    """The record of message DAMAGED, the first in it, has a wrong checksum."""
    damage(tmp_path, messages[DAMAGED].offset + RECORD_HEAD.size)
    with quick_log(tmp_path, read_only=True) as log:
        yield log


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_each_message_before_the_damage_is_found(messages: list[Message], tmp_path: Path, way: str, place: str) -> None:
    damage(tmp_path, messages[DAMAGED].offset + PLACES[place])

    with quick_log(tmp_path, read_only=True) as log:
        for number in (0, DAMAGED - BATCH - 1, DAMAGED - 2, DAMAGED - 1):
            assert WAYS[way](log, number) in ([messages[number]], [number])
        with pytest.raises(CorruptRecord) as corrupt:
            WAYS[way](log, DAMAGED)

    assert corrupt.value.position == messages[DAMAGED].offset


def test_a_page_that_is_full_before_the_damage_is_returned(messages: list[Message], wounded: Log) -> None:
    for start in (0, 100, DAMAGED - 70, DAMAGED - 25):
        limit = DAMAGED - start
        size = sum(len(message.body) for message in messages[start : DAMAGED - 1])
        assert wounded.read(start, limit=limit) == messages[start:DAMAGED]
        assert wounded.read(start, limit=limit, tag="us") == messages[start:DAMAGED]
        assert wounded.read(start, bytes_max=size, limit=COUNT) == messages[start : DAMAGED - 1]


def test_a_page_that_reaches_the_damage_is_an_error(messages: list[Message], wounded: Log) -> None:
    for start in (0, 100, DAMAGED - 70, DAMAGED - 25, DAMAGED):
        for tag in (None, "us"):
            with pytest.raises(CorruptRecord, match="the payload does not match its checksum") as corrupt:
                wounded.read(start, limit=DAMAGED - start + 1, tag=tag)
            assert corrupt.value.position == messages[DAMAGED].offset


def test_a_reader_gets_all_messages_before_the_damage(messages: list[Message], tmp_path: Path) -> None:
    damage(tmp_path, messages[DAMAGED].offset + RECORD_HEAD.size)

    with quick_log(tmp_path) as log:
        reader = log.reader("billing", tag="us")
        before = [message for _ in range(DAMAGED // 10) for message in reader.read(limit=10)]
        with pytest.raises(CorruptRecord):
            reader.read(limit=10)

    assert before == messages[:DAMAGED]
    assert reader.position == DAMAGED


@pytest.mark.parametrize("messages", [append_singles], indirect=True)
def test_messages_before_a_malformed_one_are_returned(messages: list[Message], tmp_path: Path) -> None:
    """Its checksum is right: only a read that unpacks it finds the damage."""
    file, position = block_file(tmp_path), messages[DAMAGED].offset
    change(file, position + RECORD_HEAD.size, b"\xff")
    record = file.read_bytes()[position : messages[DAMAGED + 1].offset]
    end = SIZE_WORD.size + SIZE_WORD.unpack_from(record)[0]
    change(file, position + SIZE_WORD.size, SIZE_WORD.pack(crc32c(record[PAYLOAD_AT:end])))

    with quick_log(tmp_path, read_only=True) as log:
        assert log.read(0, limit=DAMAGED, tag="us") == messages[:DAMAGED]
        assert log.read(0, bytes_max=sum(len(message.body) for message in messages[:DAMAGED])) == messages[:DAMAGED]
        with pytest.raises(CorruptRecord) as corrupt:
            log.read(0, limit=DAMAGED + 1, tag="us")

    assert corrupt.value.position == position


@pytest.mark.parametrize("cut", [0, 4, RECORD_HEAD.size])
def test_messages_before_the_cut_of_a_block_are_returned(messages: list[Message], tmp_path: Path, cut: int) -> None:
    os.truncate(block_file(tmp_path), messages[DAMAGED].offset + cut)

    with quick_log(tmp_path, read_only=True) as log:
        assert [log.at(number) for number in range(DAMAGED)] == messages[:DAMAGED]
        assert log.read(0, limit=DAMAGED) == messages[:DAMAGED]
        assert [row for batch in log.scan(0, DAMAGED) for row in batch["number"].to_pylist()] == list(range(DAMAGED))
        for read in (lambda: log.at(DAMAGED), lambda: log.read(0, limit=DAMAGED + 1)):
            with pytest.raises(CorruptRecord, match="shorter than its index says"):
                read()


def test_a_scan_gives_the_batches_before_the_damaged_one(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        for _ in range(5):
            log.append_many([b"body"] * 600)
        offsets = [message.offset for message in map(log.at, range(0, 3000, 600)) if message is not None]
    damage(tmp_path, offsets[2] + RECORD_HEAD.size + PLAIN_TABLE.size)

    with quick_log(tmp_path, read_only=True) as log:
        numbers: list[int] = []
        with pytest.raises(CorruptRecord) as corrupt:
            numbers.extend(row for batch in log.scan(columns=["number"]) for row in batch[0].to_pylist())

    assert numbers == list(range(1200))
    assert corrupt.value.position == offsets[2]
