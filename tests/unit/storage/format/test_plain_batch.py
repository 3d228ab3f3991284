"""A record of one message by the short way: the same bytes as by the long one, on disk and over the wire."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from warren.errors import BadInput, TooLarge
from warren.message import Receipt
from warren.protocol.native.append import (
    SINGLE_SIZE_MAX,
    SingleAppend,
    read_single_answer,
    read_single_append,
    single_answer_bytes,
    single_append_bytes,
)
from warren.protocol.native_messages import AppendRequest, AppendResponse, WirePosition, WireRecord
from warren.protocol.schema_codec import message_buffers, read_request, read_response
from warren.protocol.wire_struct import replaced
from warren.storage import Log
from warren.storage.arrow import scan
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BODY_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.plain_batch import is_plain_batch, pack_plain_batch
from warren.storage.format.record import Packed

MARKER = bytes(range(16))


@pytest.mark.parametrize("tag", ["", "eu.de", "x" * 128, "ключ"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, 5000])
def test_a_plain_batch_is_packed_like_any_batch(tag: str, size: int) -> None:
    body = random.Random(size).randbytes(size)

    packed = pack_plain_batch(body, tag, MARKER)

    assert [packed] == list(pack_batch(Batch([body]), tag, 0, 1 << 20, MARKER))
    assert is_plain_batch(packed, size)
    assert not is_plain_batch(packed, size - 1)


def test_a_plain_batch_is_read_as_it_was_put(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os") as log:
        receipts = [log.append_record(pack_plain_batch(b"%d" % number, "eu", MARKER)) for number in range(5)]

        messages = log.read(0)
        assert [(m.body, m.tag, m.offset, m.timestamp) for m in messages] == [
            (b"%d" % number, "eu", receipt.offset, receipt.timestamp) for number, receipt in enumerate(receipts)
        ]
        assert [marked.marker for marked in log.markers(0)] == [MARKER] * 5


def test_any_changed_byte_is_detected() -> None:
    packed, checksum, count = pack_plain_batch(b"a body", "eu.de", MARKER)
    payload = bytes(packed)

    for at in range(len(payload)):
        for bit in (1, 128):
            changed = payload[:at] + bytes([payload[at] ^ bit]) + payload[at + 1 :]
            assert not is_plain_batch(Packed(changed, checksum, count), 100)
    for cut in range(len(payload)):
        assert not is_plain_batch(Packed(payload[:cut], checksum, count), 100)
    assert not is_plain_batch(Packed(payload, checksum, 2), 100)


def test_messages_that_cannot_be_packed_are_refused() -> None:
    with pytest.raises(TooLarge):
        pack_plain_batch(bytes(BODY_SIZE_MAX + 1), "", MARKER)
    with pytest.raises(BadInput):
        pack_plain_batch("text", "", MARKER)  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        pack_plain_batch(b"", "x" * 129, MARKER)


@pytest.mark.parametrize("size", [1, 126, 127, 20_000])
def test_the_request_matches_its_schema(size: int) -> None:
    since, record = WirePosition(3, 1 << 40), WireRecord(3, 1, 0xFFFFFFFF, bytes(size))
    request = AppendRequest("orders", MARKER, False, True, [since], [record])

    data = single_append_bytes(7, "warren", request)

    assert data is not None
    body = memoryview(data)[4 + 8 + 2 + len("warren") + 1 :]
    assert body == b"".join(message_buffers(request, 0))
    assert read_single_append(body) == SingleAppend("orders", MARKER, False, 1 << 40, 3, 0xFFFFFFFF, bytes(size))
    assert read_request(AppendRequest, 0, body) == request
    for cut in range(len(body) - min(size, 300), len(body)):
        assert read_single_append(body[:cut]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"is_receipt_wanted": False},
        {"since": []},
        {"since": [WirePosition(1, 0)]},
        {"records": []},
        {"records": [WireRecord(0, 1, 1, b"one")] * 2},
        {"records": [WireRecord(0, 2, 1, b"two messages")]},
        {"records": [WireRecord(0, 1, 1, bytes(SINGLE_SIZE_MAX + 1))]},
    ],
)
def test_a_request_that_is_not_a_single_append_is_encoded_by_the_schema(change: dict[str, Any]) -> None:
    request = AppendRequest("orders", MARKER, False, True, [WirePosition(0, 0)], [WireRecord(0, 1, 1, b"one")])

    assert single_append_bytes(7, "warren", request) is not None
    assert single_append_bytes(7, "warren", replaced(request, **change)) is None


def test_the_answer_matches_its_schema() -> None:
    numbers = 3, 1 << 40, 1 << 50, 1_700_000_000_000_000, 8

    data = memoryview(single_answer_bytes(*numbers))

    answer = AppendResponse(None, (WirePosition(*numbers[:2]),), *numbers[2:])
    assert data == b"".join(message_buffers(answer, 0))
    assert read_response(AppendResponse, 0, data).positions[0] == answer.positions[0]
    frame = memoryview((7).to_bytes(4, "big") + b"\0" + bytes(data))
    assert read_single_answer(frame, 7) == answer
    assert read_single_answer(frame, 8) is None
    assert read_single_answer(frame[:-1], 7) is None
    assert read_single_answer(memoryview(bytes(frame[:5]) + b"\x01" + bytes(data[1:])), 7) is None


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
def test_the_receipt_has_the_position_of_the_message(tmp_path: Path, durability: str) -> None:
    with Log.open(tmp_path, durability=durability) as log:
        alone = log.append_record(pack_plain_batch(b"0", "", MARKER))
        together = log.settle([[pack_plain_batch(b"%d" % number, "", MARKER)] for number in (1, 2, 3)])

        for number, receipt in enumerate([alone, *together]):
            message = log.at(number)
            assert message is not None
            assert isinstance(receipt, Receipt)
            assert receipt[:3] == (number, message.offset, message.timestamp)
