"""Appending exactly once: for any outcome of the first attempt, each message exists once afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from warren.queue.state.append_once import append_once, written_count
from warren.storage import Log
from warren.storage.format.columns import Batch

MARKER = b"this batch alone"


def bodies(log: Log) -> list[bytes]:
    return [message.body for message in log.read(0, limit=10_000)]


def test_a_batch_that_was_not_written_is_written_now(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append(b"before")

    assert append_once(log, Batch([b"a", b"b"]), MARKER, 0) == range(1, 3)

    assert bodies(log) == [b"before", b"a", b"b"]


def test_a_batch_that_was_written_is_not_written_again(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    append_once(log, Batch([b"a", b"b"]), MARKER, 0)
    log.append(b"after")

    assert append_once(log, Batch([b"a", b"b"]), MARKER, 0) is None

    assert bodies(log) == [b"a", b"b", b"after"]
    assert written_count(log, MARKER, 0) == 2


def test_the_rest_of_a_partly_written_batch_is_written(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append_many([b"a", b"b"], marker=MARKER)
    log.append_many([b"x", b"y"], marker=b"of others")

    batch = Batch([b"a", b"b", b"c"], tags=["", "", "t"], keys=[None, None, b"k"], corr_offsets=[-1, -1, 7])
    assert append_once(log, batch, MARKER, 0) is None

    assert bodies(log) == [b"a", b"b", b"x", b"y", b"c"]
    last = log.last()[0]
    assert (last.tag, last.key, last.corr_offset) == ("t", b"k", 7)
    assert append_once(log, batch, MARKER, 0) is None
    assert log.end == 5


def test_messages_older_than_the_first_attempt_are_not_searched(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append_many([b"a"], marker=MARKER)

    assert append_once(log, Batch([b"a"]), MARKER, since=1) == range(1, 2)


def test_the_fields_of_messages_are_kept(tmp_path: Path) -> None:
    log = quick_log(tmp_path)

    append_once(log, Batch([b"a"], tags=["eu.de"], ids=["one"], headers=[{"h": b"1"}]), MARKER, 0)

    (message,) = log.read(0)
    assert (message.tag, message.id, dict(message.headers)) == ("eu.de", "one", {"h": b"1"})


def test_version_1_recognises_messages_by_their_ids(tmp_path: Path) -> None:
    log = quick_log(tmp_path, version=1)
    batch = Batch([b"a", b"b", b"c"], ids=["1", "2", "3"])
    log.append(b"a", id="1")
    log.append(b"other", id="x")

    assert append_once(log, batch, MARKER, 0) is None
    assert append_once(log, batch, MARKER, 0) is None

    assert bodies(log) == [b"a", b"other", b"b", b"c"]
    assert append_once(log, batch, MARKER, log.end) == range(4, 7)


@pytest.mark.parametrize("ids", [None, ["1", ""]])
def test_in_version_1_every_message_needs_an_id(tmp_path: Path, ids: list[str] | None) -> None:
    log = quick_log(tmp_path, version=1)

    with pytest.raises(AssertionError):
        append_once(log, Batch([b"a", b"b"], ids=ids), MARKER, 0)

    assert log.end == 0


def test_in_version_1_a_message_without_an_id_gets_one_by_its_row(tmp_path: Path) -> None:
    log = quick_log(tmp_path, version=1)
    batch = Batch([b"a", b"b"], ids=["", "own"])

    numbers = append_once(log, batch, MARKER, 0, id_of=lambda row: f"row-{row}")

    assert numbers == range(2)
    assert append_once(log, batch, MARKER, 0, id_of=lambda row: f"row-{row}") is None
    assert [message.id for message in log.read(0)] == ["row-0", "own"]


def test_with_markers_a_message_without_an_id_gets_none(tmp_path: Path) -> None:
    log = quick_log(tmp_path)

    append_once(log, Batch([b"a"]), MARKER, 0, id_of=lambda row: f"row-{row}")

    assert [message.id for message in log.read(0)] == [""]


def test_in_version_1_a_torn_message_is_written_again_and_complete_ones_are_not(tmp_path: Path) -> None:
    log = quick_log(tmp_path, version=1)
    batch = Batch([b"abc", b"bcd", b"cde", b"def"], ["t"] * 4, ids=["1", "2", "3", "4"], corr_offsets=[1, 2, 3, 4])
    log.append(b"abc", id="1", tag="t", corr_offset=1)
    log.append(b"b\0\0", id="2", tag="t", corr_offset=2)
    log.append(b"cde", id="3", tag="t", corr_offset=3)
    log.append(b"def", id="4", tag="", corr_offset=4)

    assert append_once(log, batch, MARKER, 0) is None
    assert append_once(log, batch, MARKER, 0) is None

    written = [(message.id, message.body, message.tag) for message in log.read(4)]
    assert written == [("2", b"bcd", "t"), ("4", b"def", "t")]


@pytest.mark.parametrize("written", range(4))
def test_in_version_1_messages_with_the_same_id_are_each_written(tmp_path: Path, written: int) -> None:
    log = quick_log(tmp_path, version=1)
    batch = Batch([b"a", b"a", b"b"], ids=["same"] * 3)
    log.append_many(batch.bodies[:written], ids=["same"] * written)

    append_once(log, batch, MARKER, 0)

    assert bodies(log) == [b"a", b"a", b"b"]
