"""Producer: puts with numbers, so that one that is tried again after an unknown outcome is written once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from warren.config import GROUP_NAME_SIZE_MAX, PRODUCER_NOTE_PUTS
from warren.errors import GONE, BadInput, NoSuchPartition, NoSuchTopic, ProducerBusy, ProducerClosed, SequenceGap
from warren.message import NO_CORR_OFFSET, Place, TopicReceipt
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.queue.names import checked_name
from warren.queue.once import append_once
from warren.queue.routing import rows_by_partition
from warren.queue.store import Store
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.filesystem import Lock
from warren.transaction.numbering import ROWS_MAX, SEQUENCE_MAX, Content, Numbered, find_puts


class Target(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Producer:
    """Numbers its puts 1, 2, 3, … over all topics. One opening at a time, in whatever process; any thread may use it.

    A put with a number that was written before writes nothing. Every record says who put it and which number it has;
    a note on disk says from where on the next opening has to look for them. A put is as durable as its topic's
    settings say, and so is its number.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.name = checked_name("producer", name, GROUP_NAME_SIZE_MAX)
        self._store = store
        directory = store_paths.producers_directory(store.path)
        store.filesystem.make_directory(directory)
        self._path = store_paths.producer_file(directory, name)
        self._mutex = threading.RLock()
        self._lock: Lock | None = store.filesystem.lock(store_paths.producer_lock(directory, name))
        if not self._lock.try_acquire():
            self._lock.close()
            raise ProducerBusy(name)
        try:
            note = read_json(store.filesystem, self._path) or {"sequence": 0, "ends": []}
            self._noted: int = note["sequence"]
            self._ends = {Target(topic, partition): end for topic, partition, end in note["ends"]}
            self._logs: dict[Target, Log] = {}
            self._puts = 0
            self._look()
        except BaseException:
            self._lock.close()
            raise

    @property
    def sequence(self) -> int:
        """The number of the last put that was written, with all before it; 0 before the first."""
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
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
    ) -> TopicReceipt | None:
        """Put one message; its receipt. None, and nothing is written, where `sequence` was written before.

        Without a sequence it gets the next one. SequenceGap for one that comes later. Without a key the number of the
        put decides to which partition it goes.
        """
        batch = Batch([body], [tag], [key], [id], [headers], [corr_offset])
        placed = self._put(topic, batch, sequence, partition)
        if placed is None:
            return None
        found, places = placed
        at = found.partition(places[0].partition).at(places[0].number)
        assert at is not None
        return TopicReceipt(found.name, at.partition, at.number, at.offset, at.timestamp, at.id)

    def put_many(
        self,
        topic: str | Topic,
        bodies: Sequence[bytes],
        *,
        sequence: int | None = None,
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> Sequence[Place] | None:
        """Put messages together, under one number; their places. None where `sequence` was written before.

        What was written of it in part, before a crash, is completed when it is put again; the places of those messages
        are not told then.
        """
        placed = self._put(topic, Batch(bodies, tags, keys, ids, headers, corr_offsets), sequence, partition)
        return None if placed is None else placed[1]

    def _put(
        self, topic: str | Topic, batch: Batch, sequence: int | None, partition: int | None
    ) -> tuple[Topic, list[Place]] | None:
        with self._mutex:
            self._check_open()
            found = self._store.topic(topic) if isinstance(topic, str) else topic
            _check(found, self._store, batch)
            if self._is_in_doubt:
                self._look()
            number = self._number(sequence)
            if number is None:
                return None
            partition_count = self._begun[number].partition_count if number in self._begun else found.partition_count
            numbered = Numbered(number, len(batch.bodies), partition_count)
            parts = _parts(found, batch, numbered, partition)
            try:
                self._touch(found, parts)
                places = self._write(found, batch, numbered, parts)
            except GONE as error:
                raise NoSuchTopic(found.name) from error
            self._count(number)
            return found, places

    def _number(self, sequence: Any) -> int | None:
        """The number of a put; None where it was written before."""
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

    def _write(self, topic: Topic, batch: Batch, numbered: Numbered, parts: Mapping[int, Sequence[int]]) -> list[Place]:
        places = [Place(-1, -1)] * len(batch.bodies)
        # Whatever goes wrong from here on, some of it may be there.
        self._is_in_doubt = True
        for partition, rows in sorted(parts.items()):
            part = Batch(*(None if column is None else [column[row] for row in rows] for column in batch))  # type: ignore[arg-type]
            log, marker = topic.partition(partition), numbered.marker(self.name)
            if log.version == 1:
                part = part._replace(ids=[numbered.id(self.name, row, _content(batch, row)) for row in rows])
            since = self._ends[Target(topic.name, partition)] if numbered.sequence in self._begun else log.end
            numbers = append_once(log, part, marker, since)
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
        """Find the puts that were written since the note was."""
        counts: Counter[Numbered] = Counter()
        for target, end in self._ends.items():
            try:
                for numbered, count in find_puts(self._find(target), self.name, end):
                    counts[numbered] += count
            except (NoSuchTopic, NoSuchPartition, *GONE):
                # Whoever deleted the topic deleted what was put to it.
                continue
        written = {numbered.sequence for numbered, count in counts.items() if count >= numbered.message_count}
        self._begun = {each.sequence: each for each in counts if each.sequence not in written}
        self._sequence = self._noted
        while self._sequence + 1 in written:
            self._sequence += 1
        # The power may take a put to one topic, and leave a later one to another.
        self._ahead = {sequence for sequence in written if sequence > self._sequence}
        self._is_in_doubt = False

    def _find(self, target: Target) -> Log:
        return self._store.existing_topic(target.topic).partition(target.partition)

    def _touch(self, topic: Topic, parts: Mapping[int, Sequence[int]]) -> None:
        """The note names every partition that is put to, before anything of ours can be in it."""
        targets = {Target(str(topic.name), partition): topic.partition(partition) for partition in parts}
        if all(self._logs.get(target) is log for target, log in targets.items()):
            return
        for target, log in targets.items():
            known = self._ends.get(target)
            # A topic that was deleted and made anew ends before what was noted.
            if known is None or known > log.end:
                self._ends[target] = _synced_end(log)
        self._logs |= targets
        self._write_note()

    def _note(self) -> None:
        """Note how far we got: what the next opening looks through begins here."""
        self._puts = 0
        if self._is_in_doubt or self._ahead or self._begun:
            return
        # What was not put to since the producer was opened holds nothing that is newer than this.
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
        """Note how far it got. From now on it can be opened elsewhere. Closing twice does no harm."""
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
        """In a child: it stays the parent's."""
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
        raise BadInput("a put with a number has one message at least")
    topic.check_bodies(batch.bodies)
    if topic.settings.version == 1:
        if batch.ids is not None and any(batch.ids):
            raise BadInput("in a topic of version 1 a producer gives messages their ids")
        if len(batch.bodies) > ROWS_MAX:
            raise BadInput(f"a put to a topic of version 1 has {ROWS_MAX} messages at most")


def _content(batch: Batch, row: int) -> Content:
    tag = "" if batch.tags is None else batch.tags[row]
    corr_offset = NO_CORR_OFFSET if batch.corr_offsets is None else batch.corr_offsets[row]
    return Content(batch.bodies[row], tag, corr_offset)


def _parts(topic: Topic, batch: Batch, numbered: Numbered, partition: int | None) -> dict[int, list[int]]:
    """Which rows go to which partition: the same ones whenever the same put is tried."""
    keyless = numbered.sequence % numbered.partition_count if partition is None else partition
    topic.partition(keyless)
    if partition is not None or batch.keys is None:
        return {keyless: list(range(len(batch.bodies)))}
    try:
        return rows_by_partition(batch.keys, numbered.partition_count, keyless)
    except TypeError as error:
        raise BadInput("every key is bytes or None") from error


def _synced_end(log: Log) -> int:
    """An end of the log from before which nothing is lost."""
    end = log.end
    log.sync()
    return end
