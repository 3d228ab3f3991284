"""A record head is parsed in one place, and the two hot loops with their own Struct agree with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from tests.tidy.source import PACKAGE
from warren.storage.format.layout import PAYLOAD_AT, RECORD_HEAD, STAMP_AT, STAMP_END, RecordHead
from warren.storage.format.record import Damage, pack_single, read_head, stamp, unpack_head
from warren.storage.read.batch_runs import BatchRunFinder

UNPACKS = ("RECORD_HEAD.unpack", "UNPACK_HEAD")
USERS = {"storage/format/record.py", "storage/read/batch_runs.py", "storage/read/lookup.py"}
"""The one place, and the two loops that a test below compares with it."""


def test_no_other_module_takes_a_record_head_apart() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(word in path.read_text() for word in UNPACKS)
    }

    assert users - {"queue/standalone/pointer_file.py"} == USERS


def test_a_head_has_the_fields_that_its_record_was_stamped_with() -> None:
    packed = pack_single(b"body", tag="t", key=b"key", headers={"h": b"v"}, id="id", corr_offset=7)
    data = b"\xff" * 16 + stamp(packed, 1016, 5, 99)

    head = unpack_head(data, 16)

    assert (head.offset, head.number, head.timestamp, head.checksum) == (1016, 5, 99, packed.checksum)
    assert (head.message_count, head.corr_offset, head.codec, head.compression) == (1, 7, 0, 0)
    assert (head.id_size, head.tag_size, head.key_size, head.headers_size) == (2, 1, 3, 5)
    assert head.size_word == len(packed.payload) + PAYLOAD_AT - 4
    assert read_head(data, 16, 1000) == head


@pytest.mark.parametrize("position", [*range(STAMP_AT, STAMP_END), STAMP_END])
def test_a_head_with_a_changed_stamp_is_damage(position: int) -> None:
    data = bytearray(stamp(pack_single(b"body"), 0, 0, 1))
    data[position] ^= 0x10

    with pytest.raises(Damage):
        read_head(bytes(data), 0, 0)


def test_a_head_of_another_place_is_damage() -> None:
    with pytest.raises(Damage, match="offset 64"):
        read_head(stamp(pack_single(b"body"), 64, 0, 1), 0, 0)


def test_the_loop_over_batches_reads_the_same_heads(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    for count in (3, 1, 40, 7):
        log.append_many([b"x" * count] * count, tag="t" * (count % 3), marker=b"m" if count == 7 else b"")
    block, limit, _ = log._view.locate(0, log.end)
    run = BatchRunFinder(block, limit, log.end).find(block.next_record(block.find(0, limit), limit), 0)

    assert run is not None
    heads = [unpack_head(block.view, batch.position) for batch in run.batches]

    assert [head.number for head in heads] == [0, 3, 4, 44]
    assert [_facts(head) for head in heads] == [
        (each.offset, each.timestamp, each.message_count, each.stamp_checksum, each.checksum) for each in run.batches
    ]
    assert [batch.end - batch.position for batch in run.batches] == [head.size_word + 4 for head in heads]
    assert [len(batch.tag) for batch in run.batches] == [head.tag_size for head in heads]


def _facts(head: RecordHead) -> tuple[int, ...]:
    return head.offset, head.timestamp, head.message_count, head.stamp_checksum, head.checksum


@pytest.mark.parametrize("number", range(4))
def test_a_look_up_reads_the_same_fields_as_a_page(tmp_path: Path, number: int) -> None:
    log = quick_log(tmp_path)
    log.append(b"plain")
    log.append(b"all", tag="t", key=b"k", headers={"h": b"v"}, id="i", corr_offset=3)
    log.append(b"", key=b"")
    log.append_many([b"row"], tags=["r"], keys=[None], ids=["n"])

    assert [log.at(number)] == log.read(number, limit=1)


def test_the_struct_has_a_field_for_each_name() -> None:
    assert len(RECORD_HEAD.unpack(bytes(RECORD_HEAD.size))) == len(RecordHead._fields)
