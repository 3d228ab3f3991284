"""One log on one simulated disk, with the model of its expected content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from random import Random
from typing import Final, Literal, NamedTuple

from tests.crash.model import Crash, Model, Sent, Setup
from tests.support.kafka_batches import packed_rows
from tests.support.line_cutter import LineCutter
from tests.support.simulated_background import SimulatedBackground
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.errors import NumberRetired, StorageError
from warren.message import Message
from warren.storage import Log
from warren.storage.append.append import numbers_of
from warren.storage.format.record import Packed, record_size
from warren.storage.read.reader import QueueReader

LOG_PATH: Final = "/log"
LIMIT: Final = 1 << 20
READERS: Final[Mapping[str, str | None]] = {"all": None, "europe": "eu.*"}


class Moment(NamedTuple):
    """A point in a step: before the `at`-th line of the engine or the `at`-th call of the seam."""

    kind: Literal["line", "call"]
    at: int


class Step(NamedTuple):
    """One change of a world, under a name by which its length is remembered."""

    name: str
    do: Callable[[], None]


class World:
    """Steps that change the log and the model alike, crashes, and the comparison afterwards.

    A step goes through `perform`, which may cut the power in the middle of it; then `crash` and `reopen` come next.
    """

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup = setup
        self.random = Random(seed)
        self.disk = SimulatedFileSystem(seed=seed)
        self.clock = SimulatedClock()
        self.background = SimulatedBackground()
        self.model = Model(setup)
        self.crashes: dict[Crash, int] = {"power cut": 0, "loss": 0, "kill": 0}
        self.measured: dict[tuple[str, str], int] = {}
        self._last_crash: Crash = "kill"
        self._log: Log | None = None
        self._second_log: Log | None = None
        self._readers: dict[str, QueueReader] = {}

    @property
    def log(self) -> Log:
        assert self._log is not None, "the log is open between a reopen and the next crash"
        return self._log

    @property
    def loss_count(self) -> int:
        """Returns how many crashes lost unsynced data."""
        return self.crashes["power cut"] + self.crashes["loss"]

    @property
    def is_open(self) -> bool:
        return self._log is not None

    # How steps are carried out and crashes happen.

    def perform(self, step: Step, moment: Moment | None = None) -> bool:
        """Carries out the step. Returns False if the power was cut at `moment` of it, or during an earlier one."""
        self.clock.pass_ns(self.random.randrange(2_000_000))
        calls_before = self.disk.calls
        line = moment.at if moment and moment.kind == "line" else None
        self.disk.cut_at_call = calls_before + moment.at if moment and moment.kind == "call" else None
        cutter = LineCutter(self.disk, line) if line else None
        try:
            with cutter or nullcontext():
                step.do()
        except PowerCut:
            assert self.disk.is_cut
        self.disk.cut_at_call = None
        if cutter:
            self._measure(step.name, "line", cutter.lines)
        self._measure(step.name, "call", self.disk.calls - calls_before)
        return not self.disk.is_cut

    def draw_moment(self, step: Step) -> Moment:
        """Returns some moment within the step, as far as its length is known from earlier ones."""
        kind: Literal["line", "call"] = self.random.choice(("line", "line", "call"))
        longest = self.measured.get((step.name, kind), 400 if kind == "line" else 20)
        return Moment(kind, self.random.randint(1, longest + longest // 8 + 1))

    def crash(self, crash: Crash, seed: int) -> None:
        """Loses unsynced data, or kills the process, unless that has happened already; closes the log."""
        self._log = self._second_log = None
        self._readers.clear()
        self.background.forget()
        if self.disk.is_cut and crash == "kill" and self.random.random() < 0.5:
            crash = "power cut"
        if crash == "kill":
            self.disk = self.disk.after_process_kill(seed)
        else:
            self.disk = self.disk.after_power_cut(seed, same_boot=crash == "loss")
        self.crashes[crash] += 1
        if self.disk.shipping is not None and self.setup.replication != "sync" and crash == "kill":
            # The first disk is gone, and only what was synced waited for the second one.
            crash = "loss"
        # Two crashes in a row count as the worse of the two.
        self._last_crash = crash if self._last_crash == "kill" else self._last_crash
        if crash != "kill" and self.random.random() < 0.2:
            self.clock.set_back_ns(self.random.randrange(10**10))

    def _measure(self, step: str, kind: str, length: int) -> None:
        self.measured[step, kind] = max(length, self.measured.get((step, kind), 1))

    # Steps.

    def open(self) -> None:
        """Opens for writing, which recovers."""
        self._log = self._open(self.setup.durability)
        if self.setup.second_durability is not None:
            self._second_log = self._open(self.setup.second_durability)

    def _open(self, durability: str) -> Log:
        return Log.open(
            LOG_PATH,
            version=self.setup.version,
            durability=durability,
            block_size=self.setup.block_size,
            exclusive=self.setup.exclusive,
            filesystem=self.disk,
            clock=self.clock,
            max_block_count=self.setup.max_block_count,
            compression=self.setup.compression,
            background=self.background,
            replication=self.setup.replication,
        )

    def close(self) -> None:
        if self._second_log is not None:
            self._second_log.close()
        self.log.close()
        self._readers.clear()
        self._log = self._second_log = None

    def _writer(self) -> tuple[Log, str]:
        """One of the writers, and its durability."""
        if self._second_log is None or self.setup.second_durability is None or self.random.random() < 0.5:
            return self.log, self.setup.durability
        return self._second_log, self.setup.second_durability

    def append(self, sent: Sent) -> None:
        self.model.begin([sent])
        log, durability = self._writer()
        receipt = log.append(sent.body, tag=sent.tag, key=sent.key, headers=sent.headers, id=sent.id)
        self._acknowledge(range(receipt.number, receipt.number + 1), durability)

    def append_many(self, batch: Sequence[Sent]) -> None:
        self.model.begin(batch)
        keys = [sent.key for sent in batch]
        log, durability = self._writer()
        records = self._as_kafka(batch, log)
        if records is not None:
            self._acknowledge(self._put_packed(log, records), durability)
            return
        numbers = log.append_many(
            [sent.body for sent in batch],
            tags=[sent.tag for sent in batch],
            keys=keys if any(key is not None for key in keys) else None,
            ids=[sent.id for sent in batch],
            headers=[sent.headers for sent in batch] if any(sent.headers for sent in batch) else None,
        )
        self._acknowledge(numbers, durability)

    def _put_packed(self, log: Log, records: Packed) -> range:
        """Appends alone, or as a broker does for all waiting puts."""
        if len(records.payload) % 2:
            return log.append_packed([records])
        (outcome,) = log.settle([[records]])
        if isinstance(outcome, BaseException):
            raise outcome
        return numbers_of(outcome, [records])

    def _as_kafka(self, batch: Sequence[Sent], log: Log) -> Packed | None:
        """Sends every third batch in Kafka's form, if a log accepts it."""
        if self.setup.version == 1 or sum(len(sent.body) for sent in batch) % 3:
            return None
        records = packed_rows([sent._asdict() for sent in batch])
        return records if record_size(records) <= log.record_size_max else None

    def retire(self, before: int, *, exactly: bool, rolls: bool) -> None:
        exactly, rolls = exactly and self.setup.version != 1, rolls and self.setup.version != 1
        self.model.first_in_flight = max(self.model.first, before)
        self.log.retire(before=before, exactly=exactly, rolls=rolls)
        if not self.disk.is_cut:
            least = before if exactly else self.model.first
            assert least <= self.log.first <= self.model.first_in_flight
            self.model.retire(self.log.first)

    def commit_reader(self, name: str, limit: int) -> None:
        """Reads at most `limit` messages, compares them, and commits the position reached."""
        reader = self._readers[name] = self._readers.get(name) or self.log.reader(name, tag=READERS[name])
        try:
            start, messages = reader.position, reader.read(limit=limit)
        except NumberRetired as error:
            reader.seek(error.first)
            start, messages = reader.position, reader.read(limit=limit)
        self._compare_read(name, start, limit, messages)
        self.model.begin_commit(name, reader.position)
        reader.commit()
        if not self.disk.is_cut:
            self.model.commit(name, reader.position)

    # The comparisons.

    def check(self) -> None:
        """The log, opened for writing after a crash, contains everything that it must and nothing that it may not."""
        crash, log = self._last_crash, self.log
        first, end = log.first, log.end
        least, greatest = self.model.end_bounds(crash)
        assert least <= end <= greatest, f"the log ends at {end}, not between {least} and {greatest}, after a {crash}"
        self._check_first(crash, first, end)
        messages = self._read_all(first, end)
        self._compare(messages, self.model.unchecked(crash))
        self.model.settle(crash, messages, first, end)
        self._check_readers(crash, end)
        log.verify()
        self._last_crash = "kill"

    def peek(self) -> None:
        """Reads the log before it is recovered: right messages, or an error, and nothing is changed.

        A killed process leaves the published end unchanged. After a power cut the index may be older than the blocks,
        or newer than the rest of them; the process that opens the log for writing finds out.
        """
        before = self.disk.contents()
        try:
            with Log.open(LOG_PATH, read_only=True, filesystem=self.disk, clock=self.clock) as log:
                first, end = log.first, log.end
                _, greatest = self.model.end_bounds(self._last_crash)
                assert 0 <= first <= end <= greatest, f"read only, the log goes from {first} to {end} of {greatest}"
                self._compare(log.read(first, limit=LIMIT), self.model.unchecked(self._last_crash))
        except StorageError:
            assert self._last_crash != "kill" or not self.disk.exists(LOG_PATH + "/index")
        assert self.disk.contents() == before, "reading changed a file"

    def check_backwards(self) -> None:
        """The other ways to a message lead to the same one."""
        last = self.log.last(3)
        self._compare(last)
        assert [message.number for message in last] == list(range(max(self.log.first, self.log.end - 3), self.log.end))
        if self.log.end > self.log.first:
            number = self.random.randrange(self.log.first, self.log.end)
            message = self.log.at(number)
            assert message is not None
            self._compare([message])

    def check_all(self) -> None:
        """All acknowledged messages exist now."""
        assert self.log.end == self.model.acknowledged
        self._compare(self._read_all(self.log.first, self.log.end))

    def _check_first(self, crash: Crash, first: int, end: int) -> None:
        least, greatest = self.model.first_bounds(crash)
        assert least <= first <= max(greatest, 0), f"the log starts at {first}, not between {least} and {greatest}"
        assert first <= end

    def _check_readers(self, crash: Crash, end: int) -> None:
        for name, allowed in list(self.model.positions.items()):
            reader = self._readers[name] = self.log.reader(name, tag=READERS[name])
            position = reader.position
            assert position <= end, f"reader {name} stands at {position}, behind the end {end}"
            # Version 1 stores a block and a position in it: for a retired block it no longer knows the numbers.
            is_retired = self.setup.version == 1 and position < self.log.first and min(allowed) <= self.log.first
            if self.model.keeps_positions(crash) and not is_retired:
                assert position in allowed, f"reader {name} stands at {position}, not at one of {sorted(allowed)}"
            self.model.settle_position(crash, name, position)

    def _read_all(self, first: int, end: int) -> list[Message]:
        messages: list[Message] = []
        while first + len(messages) < end:
            part = self.log.read(first + len(messages), limit=LIMIT)
            assert part, f"nothing at {first + len(messages)}, though the log ends at {end}"
            messages += part
        assert [message.number for message in messages] == list(range(first, end)), "numbers have gaps"
        return messages

    def _compare_read(self, name: str, start: int, limit: int, messages: Sequence[Message]) -> None:
        """A reader returned the next messages that pass its filter."""
        numbers = [
            number
            for number in range(start, self.model.acknowledged)
            if not READERS[name] or self.model.messages[number].tag.startswith("eu.")
        ]
        assert [message.number for message in messages] == numbers[:limit]
        self._compare(messages)

    def _compare(self, messages: Sequence[Message], end: int | None = None) -> None:
        """Numbers increase, times never decrease, and before `end` the messages equal the sent ones."""
        for before, after in pairwise(messages):
            assert after.number > before.number, f"{after.number} follows {before.number}"
            assert after.timestamp >= before.timestamp, f"time runs backwards at {after.number}"
        for message in messages:
            if end is not None and message.number >= end:
                break
            sent = self.model.messages[message.number]
            assert sent.matches(message), f"message {message.number} is {Sent.of(message)}, and {sent} was sent"

    def _acknowledge(self, numbers: range, durability: str) -> None:
        if self.disk.is_cut:
            return
        expected = range(self.model.acknowledged, len(self.model.messages))
        assert numbers == expected, f"numbers {numbers} were given, {expected} were due"
        self.model.acknowledge(durability)
