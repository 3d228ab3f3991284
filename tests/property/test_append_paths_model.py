"""The fast path and the ordinary path of an append store the same bytes and return the same receipts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from warren.errors import TooLarge
from warren.message import Receipt
from warren.storage import Log
from warren.storage.append.append import Appender
from warren.storage.format.record import Packed, pack_single

BLOCK_SIZE = 8 << 10
DURABILITIES = ("commit", "os", "interval:50ms")
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 900), st.sampled_from([4000, 9000, 20_000]))


class Step(NamedTuple):
    """One call: its kind, its log of a pair, and the sizes of the bodies."""

    way: str
    place: int
    sizes: Sequence[int]
    fields: dict[str, Any]
    pause_ns: int


FIELDS = st.sampled_from([{}, {}, {"tag": "eu.de"}, {"id": "id-1", "key": b"k"}, {"headers": {"h": b"v"}}])
STEPS = st.builds(
    Step,
    st.sampled_from(["append", "append", "append", "append_many", "append_record", "append_packed", "settle"]),
    st.integers(0, 1),
    st.lists(SIZES, min_size=1, max_size=4),
    FIELDS,
    st.integers(-2000, 5000),
)


class Pair:
    """A log that two writers append to in turn, as two processes would."""

    def __init__(self, directory: Path, stack: ExitStack, clock: SimulatedClock, durability: str, writers: int) -> None:
        self.directory = directory
        options: dict[str, Any] = {"durability": durability, "clock": clock, "block_size": BLOCK_SIZE}
        options |= {"exclusive": writers == 1}
        self.logs = [stack.enter_context(Log.open(directory, **options)) for _ in range(writers)]

    def do(self, step: Step) -> object:
        log, bodies = self.logs[step.place % len(self.logs)], [bytes([65]) * size for size in step.sizes]
        try:
            return getattr(self, f"_{step.way}")(log, bodies, step.fields)
        except TooLarge as error:
            return str(error)

    def _append(self, log: Log, bodies: Sequence[bytes], fields: dict[str, Any]) -> list[Receipt]:
        return [log.append(body, **fields) for body in bodies]

    def _append_many(self, log: Log, bodies: Sequence[bytes], fields: dict[str, Any]) -> range:
        return log.append_many(bodies, tag=fields.get("tag", ""))

    def _append_record(self, log: Log, bodies: Sequence[bytes], fields: dict[str, Any]) -> Receipt:
        return log.append_record(pack_single(bodies[0], **fields))

    def _append_packed(self, log: Log, bodies: Sequence[bytes], fields: dict[str, Any]) -> range:
        return log.append_packed([pack_single(body, **fields) for body in bodies])

    def _settle(self, log: Log, bodies: Sequence[bytes], fields: dict[str, Any]) -> list[str]:
        return [str(outcome) for outcome in log.settle([[pack_single(body, **fields)] for body in bodies])]

    def files(self) -> dict[str, bytes]:
        """Returns the blocks as they are on disk."""
        return {path.name: path.read_bytes() for path in sorted(self.directory.glob("*.block"))}


def take_ordinary_path(
    appender: Appender, payload: bytes, checksum: int, message_count: int = 1, id: str = ""
) -> Receipt:
    return appender._put_ordinary((Packed(payload, checksum, message_count),), id)


@pytest.mark.parametrize("writers", [1, 2])
@pytest.mark.parametrize("durability", DURABILITIES)
@settings(max_examples=examples(15), deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=60))
def test_both_paths_store_the_same_bytes_and_return_the_same_receipts(
    durability: str, writers: int, steps: Sequence[Step]
) -> None:
    clock = SimulatedClock()
    with TemporaryDirectory() as directory, ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        fast = Pair(Path(directory, "fast"), stack, clock, durability, writers)
        ordinary = Pair(Path(directory, "ordinary"), stack, clock, durability, writers)

        for step in steps:
            clock.pass_ns(step.pause_ns) if step.pause_ns > 0 else clock.set_back_ns(-step.pause_ns)
            receipts = fast.do(step)
            with patch.context() as slow:
                slow.setattr(Appender, "put", take_ordinary_path)
                assert ordinary.do(step) == receipts

        assert fast.logs[0].read(0) == ordinary.logs[0].read(0)
        stack.close()
        assert fast.files() == ordinary.files()


@pytest.mark.parametrize("writers", [1, 2])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_most_small_records_take_the_fast_path(
    tmp_path: Path, durability: str, writers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would prove nothing if both logs took the ordinary path."""
    ordinary_count, draw = 0, random.Random(7)
    put_ordinary = Appender._put_ordinary

    def count(appender: Appender, records: Sequence[Packed], id: str = "") -> Receipt:
        nonlocal ordinary_count
        ordinary_count += 1
        return put_ordinary(appender, records, id)

    monkeypatch.setattr(Appender, "_put_ordinary", count)
    with ExitStack() as stack:
        pair = Pair(tmp_path, stack, SimulatedClock(), durability, writers)
        for number in range(400):
            way = draw.choice(["append", "append_record", "append_packed", "settle"])
            pair.do(Step(way, number // 200, [draw.randrange(100)], {}, 0))

        assert ordinary_count < 40
