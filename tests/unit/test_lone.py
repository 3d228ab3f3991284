"""A record of one message by the shorter way: the same bytes as by the longer one, on disk and over the wire."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from warren.config import BODY_SIZE_MAX
from warren.errors import BadInput, TooLarge
from warren.message import Receipt
from warren.protocol.kafka_codec import decode_request, decode_response
from warren.protocol.own_api import request_bytes
from warren.protocol.own_append import (
    LoneAppend,
    LoneAppended,
    lone_answer_bytes,
    lone_append_bytes,
    read_lone_answer,
    read_lone_append,
)
from warren.protocol.own_schemas import OwnKey
from warren.storage import Log, scan
from warren.storage.columns import Batch
from warren.storage.lone import is_lone, pack_lone
from warren.storage.packing import pack_batch
from warren.storage.puts import append_record, settle_puts
from warren.storage.record import Packed

MARKER = bytes(range(16))


@pytest.mark.parametrize("tag", ["", "eu.de", "x" * 128, "ключ"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, 5000])
def test_it_is_packed_as_any_batch_is(tag: str, size: int) -> None:
    body = random.Random(size).randbytes(size)

    packed = pack_lone(body, tag, MARKER)

    assert [packed] == list(pack_batch(Batch([body]), tag, 0, 1 << 20, MARKER))
    assert is_lone(packed, size)
    assert not is_lone(packed, size - 1)


def test_what_is_stored_is_read_as_it_was_put(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os") as log:
        receipts = [append_record(log, pack_lone(b"%d" % number, "eu", MARKER)) for number in range(5)]

        found = log.read(0)
        assert [(m.body, m.tag, m.offset, m.timestamp) for m in found] == [
            (b"%d" % number, "eu", receipt.offset, receipt.timestamp) for number, receipt in enumerate(receipts)
        ]
        assert [marked.marker for marked in log.markers(0)] == [MARKER] * 5


def test_whatever_is_changed_in_it_is_noticed() -> None:
    packed, checksum, count = pack_lone(b"a body", "eu.de", MARKER)
    payload = bytes(packed)

    for at in range(len(payload)):
        for bit in (1, 128):
            changed = payload[:at] + bytes([payload[at] ^ bit]) + payload[at + 1 :]
            assert not is_lone(Packed(changed, checksum, count), 100)
    for cut in range(len(payload)):
        assert not is_lone(Packed(payload[:cut], checksum, count), 100)
    assert not is_lone(Packed(payload, checksum, 2), 100)


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(TooLarge):
        pack_lone(bytes(BODY_SIZE_MAX + 1), "", MARKER)
    with pytest.raises(BadInput):
        pack_lone("text", "", MARKER)  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        pack_lone(b"", "x" * 129, MARKER)


def values_of(asked: LoneAppend) -> dict[str, object]:
    place = {"partition": asked.partition}
    record = {**place, "message_count": 1, "checksum": asked.checksum, "payload": asked.payload}
    return {
        "topic": asked.topic,
        "marker": asked.marker,
        "is_retry": asked.is_retry,
        "is_receipt_wanted": True,
        "since": [{**place, "number": asked.since}],
        "records": [record],
    }


@pytest.mark.parametrize("size", [1, 126, 127, 20_000])
def test_the_request_is_what_its_description_says(size: int) -> None:
    asked = LoneAppend("orders", MARKER, False, 1 << 40, 3, 0xFFFFFFFF, bytes(size))

    data = lone_append_bytes(7, "warren", asked)

    assert data == request_bytes(OwnKey.APPEND, 0, 7, "warren", values_of(asked))
    body = memoryview(data)[4 + 8 + 2 + len("warren") + 1 :]
    assert read_lone_append(body) == asked
    assert decode_request(OwnKey.APPEND, 0, body).records[0].payload == asked.payload
    for cut in range(len(body) - min(size, 300), len(body)):
        assert read_lone_append(body[:cut]) is None


def test_the_answer_is_what_its_description_says() -> None:
    answer = LoneAppended(3, 1 << 40, 1 << 50, 1_700_000_000_000_000, 8)

    data = memoryview(lone_answer_bytes(*answer))

    found = decode_response(OwnKey.APPEND, 0, data)
    position = found.positions[0]
    shown = position.partition, position.number, found.offset, found.timestamp, found.partition_count
    assert (found.error, shown) == (None, tuple(answer))
    frame = memoryview((7).to_bytes(4, "big") + b"\0" + bytes(data))
    assert read_lone_answer(frame, 7) == answer
    assert read_lone_answer(frame, 8) is None
    assert read_lone_answer(frame[:-1], 7) is None
    assert read_lone_answer(memoryview(bytes(frame[:5]) + b"\x01" + bytes(data[1:])), 7) is None


@pytest.mark.parametrize("rows", [1, 600])
def test_marked_batches_are_scanned_together_as_others_are(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_batch_part", None)
    with Log.open(tmp_path, durability="os") as log:
        bodies = [[b"%d-%d" % (number, row) for row in range(rows)] for number in range(40)]
        for number, each in enumerate(bodies):
            marker = b"" if number % 5 == 4 else MARKER[: 1 + number % 16]
            log.append_packed(list(pack_batch(Batch(each), "eu", 0, 1 << 20, marker)))

        scanned = [body.as_py() for batch in log.scan() for body in batch.column("body")]

    assert scanned == [body for each in bodies for body in each]


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_the_receipt_says_where_the_message_lies(tmp_path: Path, durability: str) -> None:
    with Log.open(tmp_path, durability=durability) as log:
        alone = append_record(log, pack_lone(b"0", "", MARKER))
        together = settle_puts(log, [[pack_lone(b"%d" % number, "", MARKER)] for number in (1, 2, 3)])

        for number, receipt in enumerate([alone, *together]):
            message = log.at(number)
            assert message is not None
            assert isinstance(receipt, Receipt)
            assert receipt[:3] == (number, message.offset, message.timestamp)
