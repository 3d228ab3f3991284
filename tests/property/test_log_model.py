"""A log compared with a plain list: after any steps, both give the same."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.fakes import quick_log
from tests.support.simulated_clock import SimulatedClock
from warren.errors import NumberRetired, UnsupportedByVersion
from warren.message import Edge, Message
from warren.storage import END, START, Log, QueueReader
from warren.storage.disk.index import FIRST_KEY
from warren.storage.format.tags import TagFilter

BLOCK_SIZE = 4096
TAGS = ("", "eu", "eu.de", "eu.fr", "us.ny", "ü.ö")
FILTERS = (None, "eu.*", "eu.#", "#", "us.ny;eu", "asia")
READERS = ("billing", "audit")


class Expected(NamedTuple):
    """A message of the list: everything that a log returns, except its position."""

    body: bytes
    tag: str = ""
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}
    id: str = ""
    corr_offset: int = -1
    timestamp: int = 0


def expected_of(message: Message) -> Expected:
    return Expected(
        message.body,
        message.tag,
        message.key,
        dict(message.headers),
        message.id,
        message.corr_offset,
        message.timestamp,
    )


bodies = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda byte, size: bytes((byte,)) * size, st.integers(0, 255), st.integers(0, 2500)),
)
headers = st.dictionaries(st.text(max_size=5), st.binary(max_size=10), max_size=2)
offsets = st.integers(-1, 2**62)
ids = st.text(max_size=9)
tags = st.sampled_from(TAGS)
never = st.just(0)
v1_messages = st.builds(Expected, bodies, tags, st.none(), st.just({}), ids, offsets, never)
v2_messages = st.builds(Expected, bodies, tags, st.none() | st.binary(max_size=20), headers, ids, offsets, never)


@dataclass
class Standing:
    """The position of a reader of the list: in memory, and where it last committed."""

    position: int
    committed: int
    filter: str | None = None
    reader: QueueReader | None = field(default=None, repr=False)


class LogBesideList(RuleBasedStateMachine):
    """Every rule does one thing to both. `first` and the list never lose messages that were not retired."""

    version = 2

    @initialize(max_block_count=st.integers(1, 3))
    def make(self, max_block_count: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = SimulatedClock()
        self.max_block_count = max_block_count
        self.messages: list[Expected] = []
        self.first, self.deleted, self.flag = 0, 0, 0
        self.readers: dict[str, Standing] = {}
        self.log = self._open()
        self.other = self._open()
        self.follower = quick_log(self.directory.name, read_only=True, clock=self.clock)

    def _open(self) -> Log:
        return quick_log(
            self.directory.name,
            version=self.version,
            block_size=BLOCK_SIZE,
            max_block_count=self.max_block_count,
            clock=self.clock,
        )

    def teardown(self) -> None:
        if hasattr(self, "log"):
            assert self.log.verify().messages == len(self.messages) - self.first
            for log in (self.log, self.other, self.follower):
                log.close()
            self.directory.cleanup()

    # --- Time ---

    @rule(ms=st.integers(1, 1000))
    def let_time_pass(self, ms: int) -> None:
        self.clock.pass_ns(ms * 1_000_000)

    @rule(ms=st.integers(1, 1000))
    def set_the_clock_back(self, ms: int) -> None:
        self.clock.set_back_ns(ms * 1_000_000)

    def _now(self) -> int:
        now = self.clock.now_ns() // 1000
        return max(now, self.messages[-1].timestamp) if self.messages else now

    # --- Appending ---

    @rule(data=st.data(), by_other=st.booleans())
    def append(self, data: st.DataObject, by_other: bool) -> None:
        message = data.draw(v1_messages if self.version == 1 else v2_messages)
        log = self.other if by_other else self.log

        receipt = log.append(
            message.body,
            tag=message.tag,
            key=message.key,
            headers=message.headers,
            id=message.id,
            corr_offset=message.corr_offset,
        )

        self._check_time(receipt.timestamp)
        assert (receipt.number, receipt.id) == (len(self.messages), message.id)
        self.messages.append(message._replace(timestamp=receipt.timestamp))

    @rule(data=st.data(), count=st.integers(0, 80), columns=st.sets(st.sampled_from(Expected._fields[1:-1])))
    def append_many(self, data: st.DataObject, count: int, columns: set[str]) -> None:
        if self.version == 1:
            columns -= {"key", "headers"}
        kinds = data.draw(st.lists(v1_messages if self.version == 1 else v2_messages, min_size=1, max_size=4))
        plain = [
            Expected(**{name: getattr(kinds[place % len(kinds)], name) for name in ("body", *columns)})
            for place in range(count)
        ]
        shared_tag = data.draw(tags) if "tag" not in columns else ""
        plain = [message._replace(tag=shared_tag) if shared_tag else message for message in plain]

        numbers = self.log.append_many(
            [message.body for message in plain],
            tag=shared_tag,
            tags=[message.tag for message in plain] if "tag" in columns else None,
            keys=[message.key for message in plain] if "key" in columns else None,
            ids=[message.id for message in plain] if "id" in columns else None,
            headers=[message.headers for message in plain] if "headers" in columns else None,
            corr_offsets=[message.corr_offset for message in plain] if "corr_offset" in columns else None,
        )

        assert numbers == range(len(self.messages), len(self.messages) + count)
        for number, message in zip(numbers, plain, strict=True):
            stored = self.log.at(number)
            assert stored is not None
            self._check_time(stored.timestamp)
            self.messages.append(message._replace(timestamp=stored.timestamp))

    def _check_time(self, timestamp: int) -> None:
        """Time does not go back, and is at least as late as the clock said; a new block may have come in between."""
        assert timestamp >= self._now()

    # --- Keeping house ---

    @rule(before=st.integers(0, 400))
    def retire(self, before: int) -> None:
        first = self.log.retire(before=before)

        assert self.first <= first <= max(self.first, before)
        self._check_blocks(first)
        self.first = first

    @rule(before=st.integers(0, 400), by_other=st.booleans())
    def retire_exactly(self, before: int, by_other: bool) -> None:
        log = self.other if by_other else self.log
        if self.version == 1:
            with pytest.raises(UnsupportedByVersion):
                log.retire(before=before, exactly=True)
            return
        if before > self.first:
            self.first = self.deleted = min(before, len(self.messages))

        assert log.retire(before=before, exactly=True) == self.first

        assert [log.first for log in (self.log, self.other, self.follower)] == [self.first] * 3
        self._check_blocks(self.first)

    @rule(before=st.integers(0, 400), by_other=st.booleans(), exactly=st.booleans())
    def retire_with_the_last_block(self, before: int, by_other: bool, exactly: bool) -> None:
        """The last block is ended, even if it is not removed: writers continue in the next one."""
        log = self.other if by_other else self.log
        if self.version == 1:
            with pytest.raises(UnsupportedByVersion):
                log.retire(before=before, rolls=True)
            return
        first = log.retire(before=before, exactly=exactly, rolls=True)

        assert self.first <= first <= max(self.first, before)
        if before >= len(self.messages) or exactly:
            assert first == max(self.first, min(before, len(self.messages)))
        self.first = first
        if exactly or before >= len(self.messages):
            self.deleted = max(self.deleted, first)
        assert [log.first for log in (self.log, self.other, self.follower)] == [self.first] * 3
        assert not self.log.inspect().blocks or self.log.inspect().blocks[-1].base_number == len(self.messages)
        self._check_blocks(first)

    def _check_blocks(self, first: int) -> None:
        """The log starts with its first block, or within it after a deletion; no block is left over."""
        blocks = self.log.inspect().blocks
        # The last block stays with its messages, unless they were deleted or it was begun without any.
        is_emptied = first == self.deleted or (blocks and blocks[-1].base_number == len(self.messages))
        assert first < len(self.messages) or not self.messages or is_emptied
        blocks = blocks[:1]
        assert [max(block.base_number, self.deleted) for block in blocks] in ([first], [])
        assert all(first < block.end_number or not block.is_sealed for block in blocks)

    @rule()
    def close_and_reopen(self) -> None:
        self.log.close()
        self.log = self._open()
        self._forget_readers()
        assert self.log.recovery is None

    @rule()
    def drop_and_reopen(self) -> None:
        """As a process does that ends between two appends."""
        self.log, self.other = self._open(), self._open()
        self._forget_readers()
        assert self.log.recovery is None

    @rule()
    @precondition(lambda self: self.version == 2 or not self.first)
    def make_the_index_anew(self) -> None:
        """Blocks of version 1 do not store their number, which their readers need: only possible while no block was
        removed.
        """
        for log in (self.log, self.other, self.follower):
            log.close()
        (Path(self.directory.name) / "index").unlink()
        self.log, self.other = self._open(), self._open()
        self.follower = quick_log(self.directory.name, read_only=True, clock=self.clock)
        self._forget_readers()
        self.flag = 0
        # Deletions within a block were only in the index.
        blocks = self.log.inspect().blocks
        assert self.log.first == (blocks[0].base_number if blocks else len(self.messages))
        self.first, self.deleted = self.log.first, 0

    @rule(value=st.integers(0, 2**32 - 1))
    def set_flag(self, value: int) -> None:
        self.log.flag = self.flag = value
        self.log.extension = {"flag": str(value)}
        pairs = {key: pair for key, pair in self.other.extension.items() if key != FIRST_KEY}
        assert (self.other.flag, pairs, self.other.first) == (value, {"flag": str(value)}, self.first)

    @rule()
    def rest(self) -> None:
        assert self.log._files.rest()

    # --- Reading ---

    @rule(
        start=st.integers(-3, 3),
        limit=st.integers(0, 50),
        tag=st.sampled_from(FILTERS),
        bound=st.none() | st.integers(0, 4000),
    )
    def read(self, start: int, limit: int, tag: str | None, bound: int | None) -> None:
        for number in (self.first + start, len(self.messages) // 2 + start, len(self.messages) + start):
            if number < self.first:
                with pytest.raises(NumberRetired) as caught:
                    self.log.read(number)
                assert (caught.value.number, caught.value.first) == (number, self.first)
                continue
            for log in (self.log, self.follower):
                messages = log.read(number, limit=limit, tag=tag, bytes_max=bound)
                self._check(messages, self._passing(number, tag, limit, bound))

    def _passing(self, number: int, tag: str | None, limit: int, bound: int | None = None) -> list[int]:
        tag_filter = TagFilter.parse(tag) if tag else None
        picked: list[int] = []
        size = 0
        for place in range(number, len(self.messages)):
            message = self.messages[place]
            if tag_filter is not None and not tag_filter.matches(message.tag):
                continue
            size += len(message.body)
            if len(picked) == limit or (bound is not None and picked and size > bound):
                break
            picked.append(place)
        return picked

    def _check(self, messages: Sequence[Message], numbers: Sequence[int]) -> None:
        assert [message.number for message in messages] == list(numbers)
        assert [expected_of(message) for message in messages] == [self.messages[number] for number in numbers]

    @rule(count=st.integers(0, 300))
    def last(self, count: int) -> None:
        start = max(self.first, len(self.messages) - count)
        self._check(self.log.last(count), range(start, len(self.messages)))

    @rule(number=st.none() | st.integers(0, 400))
    def backwards(self, number: int | None) -> None:
        if number is not None and number < self.first:
            return
        top = len(self.messages) - 1 if number is None else min(number, len(self.messages) - 1)
        self._check(list(self.log.backwards(number)), range(top, self.first - 1, -1))

    @rule(data=st.data())
    def find_time(self, data: st.DataObject) -> None:
        times = [message.timestamp for message in self.messages[self.first :]]
        when = data.draw(st.sampled_from([*times, 0, 2**60])) + data.draw(st.integers(-1, 1))

        expected = next((place for place, time in enumerate(times) if time >= when), len(times)) + self.first

        assert self.log.find_time(when) == self.follower.find_time(when) == expected

    # --- Readers ---

    def _reader(self, name: str) -> Standing:
        if name not in self.readers:
            self.readers[name] = Standing(self.first, self.first)
        standing = self.readers[name]
        if standing.reader is None:
            standing.reader = self.log.reader(name)
            standing.position = standing.committed
            if self.version == 1 and standing.committed < self.first:
                # A reader of version 1 stores block and position: for a removed block no number is left.
                assert standing.reader.position < self.first
                standing.position = standing.committed = standing.reader.position
        assert (standing.reader.position, standing.reader.tag) == (standing.position, standing.filter)
        return standing

    def _forget_readers(self) -> None:
        for standing in self.readers.values():
            standing.reader = None

    @rule(name=st.sampled_from(READERS), limit=st.integers(1, 30))
    def read_on(self, name: str, limit: int) -> None:
        standing = self._reader(name)
        assert standing.reader is not None
        if standing.position < self.first:
            with pytest.raises(NumberRetired):
                standing.reader.read(limit)
            standing.position = standing.reader.seek(START)
            return
        expected = self._passing(standing.position, standing.filter, limit)

        self._check(standing.reader.read(limit), expected)

        standing.position = standing.reader.position
        if len(expected) == limit:
            # It may have skipped messages that do not pass, and no message that does.
            following = self._passing(expected[-1] + 1, standing.filter, 1)
            assert expected[-1] < standing.position <= (following[0] if following else len(self.messages))
        else:
            assert standing.position == len(self.messages)

    @rule(name=st.sampled_from(READERS))
    def commit(self, name: str) -> None:
        standing = self._reader(name)
        assert standing.reader is not None

        standing.reader.commit()

        standing.committed = standing.position

    @rule(name=st.sampled_from(READERS), to=st.sampled_from([START, END]) | st.integers(0, 400))
    def seek(self, name: str, to: int | Edge) -> None:
        standing = self._reader(name)
        assert standing.reader is not None
        end = len(self.messages)

        standing.position = standing.reader.seek(to)

        places = {START: self.first, END: end}
        assert standing.position == (places[to] if isinstance(to, Edge) else min(to, end))

    @rule(name=st.sampled_from(READERS), tag=st.sampled_from(FILTERS[1:]))
    def change_filter(self, name: str, tag: str) -> None:
        standing = self._reader(name)

        self.log.reader(name, tag=tag)

        standing.filter, standing.reader = tag, None
        self._reader(name)

    # --- Invariants ---

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def first_and_end_agree(self) -> None:
        for log in (self.log, self.other, self.follower):
            assert (log.first, log.end) == (self.first, len(self.messages))
        assert self.log.flag == self.flag
        assert self.log.readers() == sorted(self.readers)


class Version1BesideList(LogBesideList):
    version = 1


TestVersion1 = Version1BesideList.TestCase
TestVersion2 = LogBesideList.TestCase
TestVersion1.settings = TestVersion2.settings = settings(max_examples=examples(25), stateful_step_count=40)
