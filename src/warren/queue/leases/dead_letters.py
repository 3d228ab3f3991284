"""Dead letters: a message that failed too often goes to a topic of its own, exactly once, and can be put back."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.errors import BadInput, CorruptRecord, NeedsMemory, NumberRetired, SettingsDiffer, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.leases.lease_check import MessageKey
from warren.queue.leases.lease_order import Lease
from warren.queue.leases.lease_state import Burial, Leases, Redrive
from warren.queue.state.append_once import append_once
from warren.queue.state.ledger import Ledger
from warren.queue.state.settings import checked_name
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.topic_view import TopicView
from warren.queue.state.waits import checked_count
from warren.storage import Log
from warren.storage.format.allowance import dropped_at_end, together_size_max
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT, BLOCK_SIZE_MAX, MARKER_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import pack_headers, record_size

HEADER_PREFIX: Final = "warren.dead-"
DAMAGE_HEADER: Final = "warren.damage"
"""The header of a letter whose message cannot be read, or is too large. It has no body, and is not put back."""
REASON_SIZE_MAX: Final = 1000
"""In bytes. A longer reason is cut."""
BURIAL_COUNT_MAX: Final = 100
BURIAL_BYTES_MAX: Final = 16 << 20
"""How many messages, and about how many bytes, become dead letters with one commit, at most."""
REDRIVE_COUNT_MAX: Final = 1000
REDRIVE_BYTES_MAX: Final = 16 << 20
"""How many messages, and about how many bytes, are put back with one commit, at most. At least one is, of any size.

They are all in memory at the same time. A thread of a broker reads fewer bytes together. If a message is larger, it
raises NeedsMemory before anything has changed.
"""
LETTERS_PARTITION: Final = 0
NOTHING_READ: Final[Mapping[MessageKey, Message | None]] = MappingProxyType({})


def dead_letter_topic(topic: str, dead_letter: str) -> str:
    """Returns the name of the dead-letter topic of `topic`. `dead_letter` is the setting of `topic`."""
    return dead_letter or f"{topic}.dead"


class Failure(NamedTuple):
    """A message that is to become a dead letter, if its lease has not changed.

    If the holder of the lease asks for this (`by_holder`), the end time of the lease is not compared, because the lease
    may be renewed at any moment. Otherwise the lease ran out, and a lease that was renewed since then is a different
    one.
    """

    partition: int
    number: int
    lease: Lease
    reason: str
    by_holder: bool = False

    def is_leased_as(self, present: Lease | None) -> bool:
        """Returns whether the ledger still holds this lease.

        Compares by value, because a replay makes new objects.
        """
        if present is not None and self.by_holder:
            present = present._replace(time_us=self.lease.time_us)
        return present == self.lease


@dataclass(slots=True)
class Redriven:
    """How many letters a redrive has put back so far. A call that is repeated with more memory continues it."""

    count: int = 0


class DeadLetters:
    """The dead letters of one group. Any thread may call; `lock` lets one process at a time work here.

    Each append is announced by an intent in the ledger, which is synced first. A process that holds the lock and finds
    an intent finishes it, because no other process can be at work on it. The marker of the appended records shows which
    of them were written.
    """

    def __init__(self, topic: TopicView, group: str, ledger: Ledger, leases: Leases, lock: SharedLock) -> None:
        self._topic, self._group = topic, group
        self._ledger, self._leases, self._lock = ledger, leases, lock

    @property
    def topic(self) -> TopicView:
        """The dead-letter topic, created on first use."""
        source = self._topic
        store, name = source.store, letters_name(source)
        if not store.has_topic(name):
            # Leaves room for the headers that are added to the message.
            block_size = min(max(2 * source.settings.block_size, BLOCK_SIZE_DEFAULT), BLOCK_SIZE_MAX)
            try:
                return store.topic(name, 1, version=2, durability=source.settings.durability, block_size=block_size)
            except SettingsDiffer:
                # Another process has created it at the same moment, with its own settings.
                pass
        return store.topic(name)

    def _log(self) -> Log:
        topic = self.topic
        topic.check_takes_puts()
        log = topic.partition(LETTERS_PARTITION)
        log.format.check_headers("a dead letter, which has headers")
        return log

    # --- To the dead ---

    def bury(self, failed: Sequence[Failure]) -> tuple[list[Failure], int]:
        """Turns those messages whose lease has not changed into dead letters: as many as one commit takes.

        Returns them, and how many of `failed` were tried.
        """
        log = self._log()
        with self._lock, dropped_at_end():
            self._finish_all()
            messages = self._read(failed)
            tried = failed[: len(messages)]
            with self._ledger.changing():
                buried = [each for each in tried if each.is_leased_as(self._leases.of(each.partition, each.number))]
                if buried:
                    letters = [(each.partition, each.number, each.lease.attempt, each.reason) for each in buried]
                    self._ledger.add("bury", {"id": uuid.uuid4().hex, "since": log.end, "letters": letters})
            places = [(each.partition, each.number) for each in tried]
            self._finish_all(dict(zip(places, messages, strict=True)))
        return buried, len(tried)

    def _read(self, failed: Sequence[Failure]) -> list[Message | None]:
        """Returns the first of these messages, as many as become letters with one commit; None for a retired one."""
        messages: list[Message | None] = []
        size, size_max = 0, min(BURIAL_BYTES_MAX, together_size_max() or BURIAL_BYTES_MAX)
        for each in failed[:BURIAL_COUNT_MAX]:
            try:
                message = self._message(each.partition, each.number)
            except NeedsMemory:
                if not messages:
                    raise
                break
            messages.append(message)
            size += 0 if message is None else len(message.body)
            if size >= size_max:
                break
        return messages

    def finish(self) -> None:
        """Finishes what this process or another one began and did not complete."""
        with self._lock:
            self._finish_all()

    def _finish_all(self, read: Mapping[MessageKey, Message | None] = NOTHING_READ) -> None:
        """Finishes what was begun. `read` are messages that were read already, by partition and number."""
        self._ledger.look()
        for id, burial in list(self._leases.burials.items()):
            with dropped_at_end():
                self._append_letters(id, burial, read)
        for id, redrive in list(self._leases.redrives.items()):
            with dropped_at_end():
                self._put_back(id, redrive, self._decided(redrive))

    def _append_letters(self, id: str, burial: Burial, read: Mapping[MessageKey, Message | None]) -> None:
        log, marker = self._log(), bytes.fromhex(id)
        # The intent must be on disk before the records that it announces.
        self._ledger.sync()
        written = _written_letters(log, marker, burial.since)
        letters = [
            _letter(message, self._group, attempts, reason)
            for partition, number, attempts, reason in burial.letters
            if (partition, number) not in written
            and (message := self._read_before(read, partition, number)) is not None
        ]
        if letters:
            try:
                log.append_many(**_batch(letters)._asdict(), marker=marker)
            except TooLarge:
                # A letter that is too large would block all others of the group.
                log.append_many(**_batch([_taken_by(log, letter) for letter in letters])._asdict(), marker=marker)
        log.sync()
        self._done("buried", id)

    def _read_before(self, read: Mapping[MessageKey, Message | None], partition: int, number: int) -> Message | None:
        place = partition, number
        return read[place] if place in read else self._message(partition, number)

    def _message(self, partition: int, number: int) -> Message | None:
        """Returns the message, or None if it was retired. If it is damaged, the message has no content."""
        try:
            return self._topic.logs[partition].at(number)
        except NumberRetired:
            return None
        except CorruptRecord as error:
            # Without the path, because clients on the network must not learn where the store is.
            reason = f"damaged at byte {error.position} of its file: {error.reason}"
            headers = {DAMAGE_HEADER: reason.encode(errors="replace")[:REASON_SIZE_MAX]}
            name = self._topic.name
            return Message(number, 0, partition, name, 0, "", "", None, headers, NO_CORR_OFFSET, b"", 0)

    def _done(self, kind: str, id: str) -> None:
        with self._ledger.changing():
            self._ledger.add(kind, {"id": id})
        self._ledger.sync()

    # --- And back ---

    def redrive(self, done: Redriven, limit: int | None, numbers: Mapping[int, Sequence[int]] | None) -> None:
        """Puts letters of this group back into the partitions they came from, until `done` has up to `limit`.

        With `numbers`, by partition, only these. Raises BadInput if both are given, or `limit` is no number.
        """
        if limit is not None:
            checked_count("limit", limit, 1, math.inf)
        if limit is not None and numbers is not None:
            raise BadInput("pass either limit or numbers")
        if numbers is None:
            self._redrive_first(limit, done)
        for partition, each in (numbers or {}).items():
            self._redrive_numbers(partition, each, done)

    def _redrive_numbers(self, partition: int, numbers: Sequence[int], done: Redriven) -> None:
        """Puts these letters of a partition back, if they are this group's and not put back yet."""
        self._topic.check_takes_puts()
        with self._lock:
            self._finish_all()
            log = self.topic.partition(partition)
            start = self._start(partition, log)
            waiting = sorted({number for number in numbers if number >= start})
            while waiting:
                with dropped_at_end():
                    page = self._page(log, waiting)
                    letters = self._left(partition, log, page)
                    waiting = [number for number in waiting if number > page[-1].number] if page else []
                    if letters:
                        start, end = letters[0].number, letters[-1].number + 1
                        chosen = [letter.number for letter in letters]
                        self._decide(Redrive(partition, start, end, self._source_ends(letters), chosen), letters)
                        done.count += len(letters)

    def _page(self, log: Log, numbers: Sequence[int]) -> list[Message]:
        """Returns the first of these letters that still exist, as many as are put back with one commit."""
        page: list[Message] = []
        size, size_max = 0, _redrive_bytes_max()
        for number in numbers:
            try:
                letter = log.at(number) if number >= log.first else None
            except NeedsMemory:
                if not page:
                    raise
                break
            if letter is not None:
                page.append(letter)
                size += len(letter.body)
            if size >= size_max or len(page) == REDRIVE_COUNT_MAX:
                break
        return page

    def _redrive_first(self, limit: int | None, done: Redriven) -> None:
        """Puts the first letters of this group back, until `done` has up to `limit`."""
        self._topic.check_takes_puts()
        with self._lock:
            self._finish_all()
            for partition, log in enumerate(self.topic.logs):
                end = log.end
                while limit is None or done.count < limit:
                    with dropped_at_end():
                        left = None if limit is None else limit - done.count
                        redriven = self._redrive_page(partition, log, end, left)
                    if redriven is None:
                        break
                    done.count += redriven

    def _redrive_page(self, partition: int, log: Log, end: int, limit: int | None) -> int | None:
        """Puts back some letters of one partition, and returns how many. Returns None if none is left before `end`."""
        start = self._start(partition, log)
        page = self._letters(log, start, end)
        if not page:
            return None
        ours = self._left(partition, log, page)[:limit]
        stop = ours[-1].number + 1 if limit is not None and len(ours) == limit else page[-1].number + 1
        self._decide(Redrive(partition, start, stop, self._source_ends(ours)), ours)
        return len(ours)

    def _start(self, partition: int, log: Log) -> int:
        """Returns the number before which all letters were put back, or were retired."""
        start = self._leases.redriven_ends.get(partition, 0)
        # The position is beyond the end of the log if the topic was deleted and this is a new one with the same name.
        return log.first if start > log.end else max(start, log.first)

    def _source_ends(self, letters: Sequence[Message]) -> list[tuple[int, int]]:
        sources = sorted({_source_partition(letter) for letter in letters})
        return [(source, self._topic.partition(source).end) for source in sources]

    def _decide(self, redrive: Redrive, letters: Sequence[Message]) -> None:
        id, sources = uuid.uuid4().hex, Counter(map(_source_partition, letters))
        redrive = redrive._replace(counts=[sources[partition] for partition, _ in redrive.since])
        with self._ledger.changing():
            self._ledger.add("redrive", {"id": id, "redrive": redrive})
        self._put_back(id, redrive, letters)

    def _decided(self, redrive: Redrive) -> list[Message]:
        """Returns the letters of a redrive that another call has decided."""
        log, page = self.topic.logs[redrive.partition], list[Message]()
        if redrive.numbers is None:
            # One call may return fewer than the decision has, if the thread may not read all of them.
            start = redrive.start
            while letters := self._letters(log, start, redrive.end):
                page += letters
                start = letters[-1].number + 1
        else:
            for number in redrive.numbers:
                letter = log.at(number) if number >= log.first else None
                page += [] if letter is None else [letter]
        return self._left(redrive.partition, log, page)

    def _put_back(self, id: str, redrive: Redrive, letters: Sequence[Message]) -> None:
        # The intent must be on disk before the records that it announces.
        self._ledger.sync()
        marker = bytes.fromhex(id)
        for place, (partition, since) in enumerate(redrive.since):
            source = self._topic.partition(partition)
            messages = [
                letter._replace(headers=_without_ours(letter.headers))
                for letter in letters
                if _source_partition(letter) == partition
            ]
            # Retention removes the first letters, so those that are left are the last ones of the decision.
            retired = 0 if redrive.counts is None else redrive.counts[place] - len(messages)
            append_once(source, _batch(messages), marker, since, first_row=retired, id_of=lambda row: f"{id}-{row}")
            source.sync()
        self._done("redriven", id)

    def _letters(self, log: Log, start: int, end: int) -> list[Message]:
        """Returns the letters from `start` up to `end` that still exist, up to a limit of bytes."""
        start = max(start, log.first)
        if start >= end:
            return []
        letters = log.read(start, limit=min(end - start, REDRIVE_COUNT_MAX), bytes_max=_redrive_bytes_max())
        return [letter for letter in letters if letter.number < end]

    def _left(self, partition: int, log: Log, letters: Sequence[Message]) -> list[Message]:
        """Returns those letters that belong to this group and were not put back one by one."""
        picked = picked_numbers(self._leases, partition, log)
        return [letter for letter in letters if letter.number not in picked and self._is_ours(letter)]

    def _is_ours(self, letter: Message) -> bool:
        headers = letter.headers
        return (
            DAMAGE_HEADER not in headers
            and headers.get(HEADER_PREFIX + "topic") == str(self._topic.name).encode()
            and headers.get(HEADER_PREFIX + "group") == self._group.encode()
            and headers.get(HEADER_PREFIX + "partition", b"").isdigit()
            and _source_partition(letter) < self._topic.partition_count
        )


def _redrive_bytes_max() -> int:
    """Returns how many bytes of letters the thread may put back with one commit."""
    return min(REDRIVE_BYTES_MAX, together_size_max() or REDRIVE_BYTES_MAX)


def picked_numbers(leases: Leases, partition: int, log: Log) -> Collection[int]:
    """Returns the letters of a partition that were put back one by one."""
    picked = leases.redriven_numbers.get(partition, ())
    return picked if max(picked, default=-1) < log.end else ()


def letters_name(topic: TopicView) -> str:
    """Returns the name of the dead-letter topic. Raises BadInput if the topic cannot have one."""
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if name == topic.name:
        raise BadInput(f"topic {name!r} cannot have its own dead letters: set dead_letter to another name")
    return checked_name("dead-letter topic", name)


def _written_letters(log: Log, marker: bytes, since: int) -> set[MessageKey]:
    """Returns the messages whose letters an earlier attempt wrote: places that the headers of these letters hold.

    Their count would not say which ones they are, because a message that was retired before its burial has no letter.
    """
    written: set[MessageKey] = set()
    for marked in log.markers(since):
        if marked.marker == marker:
            with dropped_at_end():
                letters = log.read(max(marked.number, log.first), limit=marked.message_count)
                written |= {(_source_partition(each), int(each.headers[HEADER_PREFIX + "number"])) for each in letters}
    return written


def _source_partition(letter: Message) -> int:
    return int(letter.headers[HEADER_PREFIX + "partition"])


def _letter(message: Message, group: str, attempts: int, reason: str) -> Message:
    """Returns the message as it is appended to the dead letters."""
    added = {
        HEADER_PREFIX + "reason": reason.encode(),
        HEADER_PREFIX + "attempts": b"%d" % attempts,
        HEADER_PREFIX + "topic": str(message.topic).encode(),
        HEADER_PREFIX + "partition": b"%d" % message.partition,
        HEADER_PREFIX + "number": b"%d" % message.number,
        HEADER_PREFIX + "group": group.encode(),
    }
    return message._replace(headers=_fitting(_without_ours(message.headers), added))


def _taken_by(log: Log, letter: Message) -> Message:
    """Returns the letter, without its content if the log has no room for it. Kafka clients may put
    bodies that large.
    """
    try:
        (packed,) = pack_batch(_batch([letter]), "", 0, log.record_size_max)
        if record_size(packed) + MARKER_SIZE_MAX <= log.record_size_max:
            return letter
        reason = f"{record_size(packed)} bytes are too large for a dead letter"
    except TooLarge as error:
        reason = str(error)
    headers = {name: value for name, value in letter.headers.items() if name.startswith(HEADER_PREFIX)}
    return letter._replace(key=None, body=b"", headers={**headers, DAMAGE_HEADER: reason.encode()})


def _without_ours(headers: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: value for name, value in headers.items() if not name.startswith(HEADER_PREFIX)}


def _fitting(headers: dict[str, bytes], added: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns both together. If there is no room for all headers, the last ones of the message are dropped."""
    while headers:
        try:
            pack_headers({**headers, **added})
        except TooLarge:
            headers.popitem()
        else:
            break
    return {**headers, **added}


def _batch(messages: Sequence[Message]) -> Batch:
    """Returns the messages as columns. A column without any value is left out."""
    return Batch(
        [message.body for message in messages],
        tags=[message.tag for message in messages] if any(message.tag for message in messages) else None,
        keys=[message.key for message in messages] if any(message.key is not None for message in messages) else None,
        ids=[message.id for message in messages] if any(message.id for message in messages) else None,
        headers=[message.headers for message in messages] if any(message.headers for message in messages) else None,
        corr_offsets=[message.corr_offset for message in messages]
        if any(message.corr_offset != NO_CORR_OFFSET for message in messages)
        else None,
    )


def checked_reason(reason: object) -> str:
    """Returns the reason, cut to its size limit."""
    try:
        return str.encode(reason)[:REASON_SIZE_MAX].decode(errors="ignore")  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise BadInput(f"reason {reason!r}: expected a str") from error
