"""Dead letters are buried and put back in commits of a limited size, and within the memory that a thread has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.store.dead_letters import LEASE_S, Bench, Stopped, fail, stop_at
from warren.errors import LeaseLost, NeedsMemory
from warren.message import Message
from warren.queue.leases import dead_letters
from warren.queue.leases.dead_letters import Redriven
from warren.queue.leases.lease_check import Settlement
from warren.queue.leases.queue_group import QueueGroup
from warren.storage import Log
from warren.storage.format.allowance import allowed
from warren.storage.read.messages import ScanRoom

MIB = 1 << 20
LARGE = 3 * MIB
"""A message of this size counts for the thread that reads it."""
THREE = 3 * LARGE
"""Room for three of them."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of messages in each commit that moves dead letters."""
    counts: list[int] = []
    append_many = Log.append_many

    def counted(log: Log, bodies: Sequence[bytes], *args: Any, marker: bytes = b"", **options: Any) -> range:
        if marker:
            counts.append(len(bodies))
        return append_many(log, bodies, *args, marker=marker, **options)

    monkeypatch.setattr(Log, "append_many", counted)
    return counts


def put(bench: Bench, *sizes: int) -> None:
    for number, size in enumerate(sizes):
        bench.topic.put(b"%d" % number + bytes(size), partition=0)


def firsts(messages: Sequence[Message]) -> list[bytes]:
    return [message.body[:1] for message in messages]


def die(bench: Bench, count: int) -> QueueGroup:
    """Returns a group in which all leases have run out for the last time."""
    group = bench.group(attempts_max=1)
    assert len(group.take(count)) == count
    bench.wait(LEASE_S)
    return group


def test_a_burial_has_a_limited_number_of_bytes(
    bench: Bench, commits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "BURIAL_BYTES_MAX", 25)
    put(bench, *[9] * 5)
    group = die(bench, 5)

    assert group.take(5) == []

    assert commits == [3, 2]
    assert firsts(bench.letters()) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_thread_with_little_memory_buries_large_messages_one_after_the_other(
    bench: Bench, commits: list[int]
) -> None:
    put(bench, *[LARGE] * 5)
    group = die(bench, 5)

    with allowed(THREE):
        assert group.take_within(5, ScanRoom()) == []

    assert firsts(bench.letters()) == [b"0", b"1", b"2", b"3", b"4"]
    assert max(commits) <= 3


def test_a_message_for_which_there_is_no_memory_is_not_buried_until_there_is(bench: Bench, commits: list[int]) -> None:
    put(bench, THREE)
    group = bench.group(attempts_max=1)
    (message,) = group.take(1)

    with allowed(LARGE), pytest.raises(NeedsMemory):
        group.nack(message)
    assert (bench.letters(), group.in_flight()) == ([], 1)
    with allowed(2 * THREE):
        group.nack(message)

    assert firsts(bench.letters()) == [b"0"]
    assert commits == [1]


def test_settling_continues_with_the_message_for_which_there_was_no_memory(bench: Bench) -> None:
    put(bench, 10, THREE, 10)
    group = bench.group(attempts_max=1)
    messages = group.take(3)
    group.ack(messages[2])
    settlement = Settlement(messages)

    with allowed(LARGE), pytest.raises(NeedsMemory):
        settlement.settle_rest(group.reject)
    with allowed(2 * THREE), pytest.raises(LeaseLost) as lost:
        settlement.settle_rest(group.reject)

    assert lost.value.places == [(0, 2)]
    assert firsts(bench.letters()) == [b"0", b"1"]


def test_a_redrive_that_needs_more_memory_continues_and_counts_everything_once(bench: Bench) -> None:
    put(bench, *[LARGE] * 4, 2 * THREE, 10)
    fail(bench.group(attempts_max=1))
    group, done = bench.group(), Redriven()

    with allowed(THREE), pytest.raises(NeedsMemory):
        group.redrive_on(done)
    before = done.count
    with allowed(3 * THREE):
        group.redrive_on(done)

    assert (before, done.count) == (4, 6)
    assert firsts(bench.topic.partition(0).read(6)) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_redrive_by_number_that_needs_more_memory_continues(bench: Bench) -> None:
    put(bench, *[LARGE] * 4, 2 * THREE, 10)
    fail(bench.group(attempts_max=1))
    group, done = bench.group(), Redriven()

    with allowed(THREE), pytest.raises(NeedsMemory):
        group.redrive_on(done, numbers={0: [0, 1, 2, 4, 5]})
    before = done.count
    with allowed(3 * THREE):
        group.redrive_on(done, numbers={0: [0, 1, 2, 4, 5]})

    assert (before, done.count) == (3, 5)
    assert firsts(bench.topic.partition(0).read(6)) == [b"0", b"1", b"2", b"4", b"5"]


@pytest.mark.parametrize("numbers", [None, {0: [0, 1, 2, 3]}])
def test_a_thread_with_little_memory_finishes_a_whole_redrive_of_another_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, numbers: dict[int, list[int]] | None
) -> None:
    put(bench, *[LARGE] * 4)
    fail(bench.group(attempts_max=1))
    group, other = bench.group(), bench.group(bench.open())
    with monkeypatch.context() as patch:
        stop_at(patch, "before")
        with pytest.raises(Stopped):
            group.redrive(numbers=numbers)

    with allowed(THREE), pytest.raises(NeedsMemory):
        other.take_within(1, ScanRoom())
    with allowed(2 * THREE):
        other.take_within(1, ScanRoom())

    assert firsts(bench.topic.partition(0).read(4)) == [b"0", b"1", b"2", b"3"]
