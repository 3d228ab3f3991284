"""Producer: numbers its puts, so that a put that is repeated after an unknown outcome is written once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, Unpack

from warren.api.values import ColumnOptions, FieldOptions, MessageFields
from warren.errors import GONE, BadInput, NoSuchPartition, NoSuchTopic, ProducerBusy, ProducerClosed, SequenceGap
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.message import NO_CORR_OFFSET, Place, TopicReceipt
from warren.queue.state import paths
from warren.queue.state.append_once import append_once
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.routing import PartitionBatch, split_by_partition
from warren.queue.state.settings import checked_name
from warren.queue.store import Store
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.disk.filesystem import Lock
from warren.storage.format.checksum import crc32c
from warren.storage.format.columns import Batch

PRODUCER_NOTE_PUTS: Final = 1000
"""After how many puts a producer stores its progress. The next opening has to search at most this many puts."""

SEQUENCE_MAX: Final = (1 << 40) - 1
ROWS_MAX: Final = (1 << 20) - 1
"""How many messages one put to a topic without markers may have. A higher number does not fit into their ids."""
MARKER: Final = re.compile(rb"producer ([A-Za-z0-9._-]+) (\d+) (\d+) (\d+)")
ID: Final = re.compile(r"([0-9a-f]{10})([0-9a-z]{7})?-([0-9a-z]+)-([0-9a-z]+)-([0-9a-z]+)-([0-9a-z]+)")
"""Without the second part the id comes from an earlier release: its numbers are hexadecimal, and it has no checksum."""
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Content(NamedTuple):
    """The fields other than its id of a message in a log that keeps no markers."""

    body: bytes
    tag: str
    corr_offset: int


class NumberedPut(NamedTuple):
    """One put: its number, its number of messages, and the number of partitions that they were split among."""

    sequence: int
    message_count: int
    partition_count: int

    def marker(self, producer: str) -> bytes:
        """Returns the marker of the records of the put."""
        return f"producer {producer} {self.sequence} {self.message_count} {self.partition_count}".encode()

    def id(self, producer: str, row: int, content: Content) -> str:
        """Returns the id of one of its messages in a topic without markers, with a checksum of the message."""
        numbers = (self.sequence, row, self.message_count, self.partition_count)
        return "-".join((_digest(producer) + _checksum(content), *map(_to_base_36, numbers)))

    @classmethod
    def of_marker(cls, marker: bytes, producer: str) -> Self | None:
        """Returns the put that has this marker, or None for any other marker."""
        match = MARKER.fullmatch(marker)
        if match is None or match[1] != producer.encode():
            return None
        return cls(int(match[2]), int(match[3]), int(match[4]))

    @classmethod
    def of_id(cls, id: str, producer: str, content: Content) -> Self | None:
        """Returns the put that the message with this id belongs to, or None for another id, or a torn message."""
        match = ID.fullmatch(id)
        if match is None or match[1] != _digest(producer) or match[2] not in (None, _checksum(content)):
            return None
        base = 16 if match[2] is None else len(DIGITS)
        return cls(int(match[3], base), int(match[5], base), int(match[6], base))


def find_puts(log: Log, producer: str, since: int) -> Iterator[tuple[NumberedPut, int]]:
    """Yields the puts of a producer in a log from `since` on, each with a number of its messages."""
    if log.format.keeps_markers:
        for marked in log.markers(since):
            numbered = NumberedPut.of_marker(marked.marker, producer)
            if numbered is not None:
                yield numbered, marked.message_count
        return
    number = max(since, log.first)
    while messages := log.read(number):
        for message in messages:
            content = Content(message.body, message.tag, message.corr_offset)
            numbered = NumberedPut.of_id(message.id, producer, content)
            if numbered is not None:
                yield numbered, 1
        number = messages[-1].number + 1


def _checksum(content: Content) -> str:
    body, tag, corr_offset = content
    return _to_base_36(crc32c(f"{corr_offset} {len(tag)} {tag}".encode() + body)).rjust(7, "0")


def _to_base_36(number: int) -> str:
    """Returns the number in base 36, which is shorter than hexadecimal: such an id has 39 bytes at most."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def _digest(producer: str) -> str:
    return hashlib.sha256(producer.encode()).hexdigest()[:10]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Producer:
    """Numbers its puts 1, 2, 3, … over all topics. It can be open once at a time in all processes; any thread may use
    it.

    A put whose number was written before writes nothing. Every record names its producer and number. A note on disk
    says where the next opening starts to search for them. A put is as durable as its topic's settings say, and so is
    its number.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.name = checked_name("producer", name, GROUP_NAME_SIZE_MAX)
        self._store = store
        directory = paths.producers_directory(store.path)
        store.filesystem.make_directory(directory)
        self._path = paths.producer_file(directory, name)
        self._mutex = threading.RLock()
        self._lock: Lock | None = store.filesystem.lock(paths.producer_lock(directory, name))
        if not self._lock.try_acquire():
            self._lock.close()
            raise ProducerBusy(name)
        try:
            note = read_json(store.filesystem, self._path) or {"sequence": 0, "ends": []}
            self._noted: int = note["sequence"]
            self._ends = {TopicPartition(topic, partition): end for topic, partition, end in note["ends"]}
            self._logs: dict[TopicPartition, Log] = {}
            self._puts = 0
            self._look()
        except BaseException:
            self._lock.close()
            raise

    @property
    def sequence(self) -> int:
        """The number of the last put that was written together with all before it; 0 before the first."""
        with self._mutex:
            self._check_open()
            return self._sequence

    # --- Putting ---

    def put(
        self,
        topic: str | Topic,
        body: bytes,
        *,
        sequence: int | None = None,
        partition: int | None = None,
        **fields: Unpack[FieldOptions],
    ) -> TopicReceipt | None:
        """Puts one message, and returns its receipt.

        Returns None, and writes nothing, if `sequence` was written before.

        Without a `sequence` it gets the next number. Raises SequenceGap for a number that comes later. Without a key
        the number of the put decides the partition.
        """
        key, tag, headers, id, corr_offset = MessageFields(**fields)
        batch = Batch([body], [tag], [key], [id], [headers], [corr_offset])
        placed = self._put(topic, batch, sequence, partition)
        if placed is None:
            return None
        target, places = placed
        at = target.partition(places[0].partition).at(places[0].number)
        assert at is not None
        return TopicReceipt(target.name, at.partition, at.number, at.offset, at.timestamp, at.id)

    def put_many(
        self,
        topic: str | Topic,
        bodies: Sequence[bytes],
        *,
        sequence: int | None = None,
        partition: int | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> Sequence[Place] | None:
        """Puts messages together, under one number, and returns their places.

        Returns None if `sequence` was written before.

        If a crash left a part of the put, putting it again completes it. In a partition that already had a part, the
        places are then (-1, -1).
        """
        placed = self._put(topic, Batch(bodies, **columns), sequence, partition)
        return None if placed is None else placed[1]

    def _put(
        self, topic: str | Topic, batch: Batch, sequence: int | None, partition: int | None
    ) -> tuple[Topic, list[Place]] | None:
        with self._mutex:
            self._check_open()
            target = self._store.topic(topic) if isinstance(topic, str) else topic
            _check(target, self._store, batch)
            if self._is_in_doubt:
                self._look()
            number = self._number(sequence)
            if number is None:
                return None
            partition_count = self._begun[number].partition_count if number in self._begun else target.partition_count
            numbered = NumberedPut(number, len(batch.bodies), partition_count)
            parts = _split(target, batch, numbered, partition)
            try:
                self._touch(target, parts)
                places = self._write(target, batch, numbered, parts)
            except GONE as error:
                raise NoSuchTopic(target.name) from error
            self._count(number)
            return target, places

    def _number(self, sequence: Any) -> int | None:
        """Returns the number of a put, or None if it was written before."""
        following = self._sequence + 1
        if sequence is None:
            return following
        if not isinstance(sequence, int) or isinstance(sequence, bool) or not 1 <= sequence <= SEQUENCE_MAX:
            raise BadInput(f"sequence {sequence!r}: expected a whole number from 1 to {SEQUENCE_MAX}")
        if sequence < following or sequence in self._ahead:
            return None
        if sequence > following:
            raise SequenceGap(self.name, sequence, following)
        return sequence

    def _write(self, topic: Topic, batch: Batch, numbered: NumberedPut, parts: Sequence[PartitionBatch]) -> list[Place]:
        places = [Place(-1, -1)] * len(batch.bodies)
        # After an error from here on, some of it may have been written.
        self._is_in_doubt = True
        for partition, rows, part in parts:
            log, marker = topic.partition(partition), numbered.marker(self.name)
            since = self._ends[TopicPartition(topic.name, partition)] if numbered.sequence in self._begun else log.end
            id_of = partial(_row_id, numbered, self.name, batch, rows)
            numbers = append_once(log, part, marker, since, id_of=id_of)
            for row, number in zip(rows, numbers or (), strict=numbers is not None):
                places[row] = Place(partition, number)
        self._is_in_doubt = False
        return places

    def _count(self, sequence: int) -> None:
        self._begun.pop(sequence, None)
        self._sequence = sequence
        while self._sequence + 1 in self._ahead:
            self._sequence += 1
            self._ahead.discard(self._sequence)
        self._puts += 1
        if self._puts >= PRODUCER_NOTE_PUTS:
            self._note()

    # --- Knowing what was written ---

    def _look(self) -> None:
        """Finds the puts that were written after the note."""
        counts: Counter[NumberedPut] = Counter()
        for target, end in self._ends.items():
            try:
                for numbered, count in find_puts(self._find(target), self.name, end):
                    counts[numbered] += count
            except (NoSuchTopic, NoSuchPartition, *GONE):
                # The topic was deleted, and all its messages with it.
                continue
        written = {numbered.sequence for numbered, count in counts.items() if count >= numbered.message_count}
        self._begun = {each.sequence: each for each in counts if each.sequence not in written}
        self._sequence = self._noted
        while self._sequence + 1 in written:
            self._sequence += 1
        # A power cut may lose a put to one topic but not a later one to another.
        self._ahead = {sequence for sequence in written if sequence > self._sequence}
        self._is_in_doubt = False

    def _find(self, target: TopicPartition) -> Log:
        return self._store.existing_topic(target.topic).partition(target.partition)

    def _touch(self, topic: Topic, parts: Sequence[PartitionBatch]) -> None:
        """Makes the note name every partition of the put, before anything is written to them."""
        targets = {TopicPartition(str(topic.name), part.partition): topic.partition(part.partition) for part in parts}
        if all(self._logs.get(target) is log for target, log in targets.items()):
            return
        for target, log in targets.items():
            noted = self._ends.get(target)
            # A topic that was deleted and created again ends before the noted end.
            if noted is None or noted > log.end:
                self._ends[target] = _synced_end(log)
        self._logs |= targets
        self._write_note()

    def _note(self) -> None:
        """Stores the progress of the producer in the note. The next opening searches from there."""
        self._puts = 0
        if self._is_in_doubt or self._ahead or self._begun:
            return
        # A topic without a put since the producer was opened has nothing newer than this note.
        self._ends = {}
        for target in list(self._logs):
            try:
                self._ends[target] = _synced_end(self._find(target))
            except (NoSuchTopic, NoSuchPartition, *GONE):
                del self._logs[target]
        self._noted = self._sequence
        self._write_note()

    def _write_note(self) -> None:
        ends = [[*target, end] for target, end in self._ends.items()]
        write_json(self._store.filesystem, self._path, {"sequence": self._noted, "ends": ends})

    # --- Closing ---

    def _check_open(self) -> None:
        self._store.check_open()
        if self._lock is None:
            raise ProducerClosed(self.name)

    def close(self) -> None:
        """Stores its progress, and frees the name for another opening. A second call does nothing."""
        with self._mutex:
            lock, self._lock = self._lock, None
            if lock is None:
                return
            try:
                if self._sequence > self._noted:
                    self._note()
            finally:
                lock.release()
                lock.close()

    def after_fork(self) -> None:
        """In a child process: closes the producer, which stays the parent's."""
        self._mutex = threading.RLock()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Producer {self.name}: {'closed' if self._lock is None else self._sequence}>"


def _check(topic: Any, store: Store, batch: Batch) -> None:
    if not isinstance(topic, Topic) or topic.store is not store:
        raise BadInput(f"{topic!r}: expected a topic of this store, or its name")
    batch.check()
    if not batch.bodies:
        raise BadInput("a numbered put needs at least one message")
    topic.check_bodies(batch.bodies)
    if not topic.settings.format.keeps_markers:
        version = topic.settings.version
        if batch.ids is not None and any(batch.ids):
            raise BadInput(f"the producer assigns the ids of messages in a topic of version {version}")
        if len(batch.bodies) > ROWS_MAX:
            raise BadInput(f"a put to a topic of version {version} may have {ROWS_MAX} messages at most")


def _content(batch: Batch, row: int) -> Content:
    tag = "" if batch.tags is None else batch.tags[row]
    corr_offset = NO_CORR_OFFSET if batch.corr_offsets is None else batch.corr_offsets[row]
    return Content(batch.bodies[row], tag, corr_offset)


def _row_id(numbered: NumberedPut, producer: str, batch: Batch, rows: Sequence[int], row: int) -> str:
    """Returns the id of one message of a part of the batch, in a log that keeps no markers. The part has these rows."""
    return numbered.id(producer, rows[row], _content(batch, rows[row]))


def _split(topic: Topic, batch: Batch, numbered: NumberedPut, partition: int | None) -> list[PartitionBatch]:
    """Splits the put by partition, in the same way each time the same put is repeated."""
    keyless = numbered.sequence % numbered.partition_count if partition is None else partition
    topic.partition(keyless)
    return split_by_partition(batch, numbered.partition_count, keyless, by_key=partition is None)


def _synced_end(log: Log) -> int:
    """Returns an end of the log, up to which nothing can be lost."""
    end = log.end
    log.sync()
    return end
