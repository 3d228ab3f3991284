"""Markers: how a batch of unknown outcome is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from warren.errors import CorruptRecord, TooLarge, UnsupportedByVersion
from warren.storage.format.limits import MARKER_SIZE_MAX


def test_a_marker_is_found_with_the_numbers_of_its_batch(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append(b"alone")
    log.append_many([b"a", b"b"], marker=b"first")
    log.append_many([b"unmarked"] * 3)
    log.append_many([b"c"], tag="t", keys=[b"k"], marker=b"second")

    assert list(log.markers(0)) == [(1, 2, b"first"), (6, 1, b"second")]
    assert list(log.markers(2)) == [(1, 2, b"first"), (6, 1, b"second")]
    assert list(log.markers(3)) == [(6, 1, b"second")]
    assert list(log.markers(7)) == []
    assert [message.body for message in log.read(1, limit=2)] == [b"a", b"b"]


def test_each_record_of_a_batch_that_needs_several_carries_the_marker(tmp_path: Path) -> None:
    log = quick_log(tmp_path, block_size=16 << 10)
    bodies = [bytes([number]) * 3000 for number in range(20)]

    log.append_many(bodies, marker=b"m")

    markers = list(log.markers(0))
    assert len(markers) > 1
    assert {marked.marker for marked in markers} == {b"m"}
    assert sum(marked.message_count for marked in markers) == 20


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_marker_is_found_in_a_compressed_batch(tmp_path: Path, compression: str) -> None:
    log = quick_log(tmp_path, compression=compression)

    log.append_many([b"x" * 1000] * 10, marker=b"m")

    assert list(log.markers(0)) == [(0, 10, b"m")]


def test_markers_start_after_retired_messages(tmp_path: Path) -> None:
    log = quick_log(tmp_path, block_size=8 << 10)
    for number in range(40):
        log.append_many([b"x" * 1000], marker=b"%d" % number)
    first = log.retire(before=20)

    assert 0 < first <= 20
    assert [marked.number for marked in log.markers(0)] == list(range(first, 40))


def test_a_marker_over_its_limit_is_refused(tmp_path: Path) -> None:
    log = quick_log(tmp_path)

    with pytest.raises(TooLarge, match="marker"):
        log.append_many([b"a"], marker=bytes(MARKER_SIZE_MAX + 1))

    assert log.end == 0


def test_version_1_has_no_markers(tmp_path: Path) -> None:
    log = quick_log(tmp_path, version=1)

    with pytest.raises(UnsupportedByVersion):
        log.append_many([b"a"], marker=b"m")

    log.append_many([b"a"])
    assert list(log.markers(0)) == []


def test_damage_raises_and_is_not_skipped(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append_many([b"a" * 100] * 10, marker=b"m")
    log.close()
    block = next(Path(log.path).glob("*.block"))
    data = bytearray(block.read_bytes())
    data[data.index(b"a" * 100)] ^= 1
    block.write_bytes(data)

    with pytest.raises(CorruptRecord):
        list(quick_log(tmp_path, read_only=True).markers(0))
