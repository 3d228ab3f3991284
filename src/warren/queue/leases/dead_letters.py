"""Dead letters: a message that failed too often goes to a topic of its own, exactly once, and can be put back."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from warren.errors import BadInput, CorruptRecord, NumberRetired, SettingsDiffer, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.leases.lease_order import Lease
from warren.queue.leases.lease_state import Burial, Leases, Redrive
from warren.queue.state.append_once import append_once, written_count
from warren.queue.state.ledger import Ledger
from warren.queue.state.settings import checked_name
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.topic_view import TopicView
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT, BLOCK_SIZE_MAX, MARKER_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import pack_headers, record_size

HEADER_PREFIX: Final = "warren.dead-"
DAMAGE_HEADER: Final = "warren.damage"
"""The header of a letter whose message cannot be read, or is too large. It has no body, and is not put back."""
REASON_SIZE_MAX: Final = 1000
"""In bytes. The caller cuts a longer reason."""
BURIAL_COUNT_MAX: Final = 100
"""How many messages become dead letters with one commit, at most."""
REDRIVE_COUNT_MAX: Final = 1000
REDRIVE_BYTES_MAX: Final = 16 << 20
"""How many messages, and about how many bytes, are put back with one commit, at most."""
LETTERS_PARTITION: Final = 0


def dead_letter_topic(topic: str, dead_letter: str) -> str:
    """Returns the name of the dead-letter topic of `topic`. `dead_letter` is the setting of `topic`."""
    return dead_letter or f"{topic}.dead"


class Failure(NamedTuple):
    """A message that is to become a dead letter, if its lease is still this one.

    If the holder of the lease asks for it (`by_holder`), the time of the lease does not count, because the lease may
    be renewed at any moment. Otherwise the time ran out, and a lease that was renewed since then is another one.
    """

    partition: int
    number: int
    lease: Lease
    reason: str
    by_holder: bool = False

    def is_leased_as(self, present: Lease | None) -> bool:
        """Returns whether the ledger's present lease is this one.

        Compares by value, because a replay makes new objects.
        """
        if present is not None and self.by_holder:
            present = present._replace(time_us=self.lease.time_us)
        return present == self.lease


class DeadLetters:
    """The dead letters of one group. Any thread may call; `lock` lets one process at a time work here.

    An append is first announced by an intent in the ledger, which is synced. A process that holds the lock and finds an
    intent finishes it, because no other process can be at work on it. The marker of the appended records says how many
    of them are there already.
    """

    def __init__(self, topic: TopicView, group: str, ledger: Ledger, leases: Leases, lock: SharedLock) -> None:
        self._topic, self._group = topic, group
        self._ledger, self._leases, self._lock = ledger, leases, lock

    @property
    def topic(self) -> TopicView:
        """The dead-letter topic, which is made on first use."""
        source = self._topic
        store, name = source.store, letters_name(source)
        if not store.has_topic(name):
            # With room for the headers that are added to the message.
            block_size = min(max(2 * source.settings.block_size, BLOCK_SIZE_DEFAULT), BLOCK_SIZE_MAX)
            try:
                return store.topic(name, 1, version=2, durability=source.settings.durability, block_size=block_size)
            except SettingsDiffer:
                # Another process has made it at the same moment, with settings of its own.
                pass
        return store.topic(name)

    def _log(self) -> Log:
        topic = self.topic
        topic.check_takes_puts()
        log = topic.partition(LETTERS_PARTITION)
        log.format.check_headers("a dead letter, which has headers")
        return log

    # --- To the dead ---

    def bury(self, failed: Sequence[Failure]) -> list[Failure]:
        """Turns the messages whose lease is still the same into dead letters, and returns them."""
        log = self._log()
        with self._lock:
            self._finish_all()
            with self._ledger.changing():
                buried = [each for each in failed if each.is_leased_as(self._leases.of(each.partition, each.number))]
                if buried:
                    letters = [(each.partition, each.number, each.lease.attempt, each.reason) for each in buried]
                    self._ledger.add("bury", {"id": uuid.uuid4().hex, "since": log.end, "letters": letters})
            self._finish_all()
        return buried

    def finish(self) -> None:
        """Finishes what this process or another one began and did not finish."""
        with self._lock:
            self._finish_all()

    def _finish_all(self) -> None:
        self._ledger.look()
        for id, burial in list(self._leases.burials.items()):
            self._append_letters(id, burial)
        for id, redrive in list(self._leases.redrives.items()):
            self._put_back(id, redrive)

    def _append_letters(self, id: str, burial: Burial) -> None:
        log, marker = self._log(), bytes.fromhex(id)
        # The intent must be on disk before the records that it announces.
        self._ledger.sync()
        missing = burial.letters[written_count(log, marker, burial.since) :]
        letters = [
            _letter(message, self._group, attempts, reason)
            for partition, number, attempts, reason in missing
            if (message := self._message(partition, number)) is not None
        ]
        if letters:
            try:
                log.append_many(**_batch(letters)._asdict(), marker=marker)
            except TooLarge:
                # A letter that is too large would keep all others of the group waiting for ever.
                log.append_many(**_batch([_taken_by(log, letter) for letter in letters])._asdict(), marker=marker)
        log.sync()
        self._done("buried", id)

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

    def redrive_numbers(self, partition: int, numbers: Sequence[int]) -> int:
        """Puts these letters of a partition back, if they are this group's and not put back yet. Returns how many."""
        self._topic.check_takes_puts()
        count = 0
        with self._lock:
            self._finish_all()
            log = self.topic.partition(partition)
            start = self._start(partition, log)
            waiting = sorted({number for number in numbers if number >= start})
            while waiting:
                page = self._page(log, waiting)
                letters = self._left(partition, log, page)
                waiting = [number for number in waiting if number > page[-1].number] if page else []
                if letters:
                    start, end = letters[0].number, letters[-1].number + 1
                    chosen = [letter.number for letter in letters]
                    self._decide(Redrive(partition, start, end, self._source_ends(letters), chosen))
                    count += len(letters)
        return count

    def _page(self, log: Log, numbers: Sequence[int]) -> list[Message]:
        """Returns the first of these letters that still exist, as many as are put back with one commit."""
        page: list[Message] = []
        size = 0
        for number in numbers:
            letter = log.at(number) if number >= log.first else None
            if letter is not None:
                page.append(letter)
                size += len(letter.body)
            if size >= REDRIVE_BYTES_MAX or len(page) == REDRIVE_COUNT_MAX:
                break
        return page

    def redrive(self, limit: int | None) -> int:
        """Puts up to `limit` letters of this group back into the partitions they came from. Returns how many."""
        self._topic.check_takes_puts()
        count = 0
        with self._lock:
            self._finish_all()
            for partition, log in enumerate(self.topic.logs):
                end = log.end
                while limit is None or count < limit:
                    redriven = self._redrive_page(partition, log, end, None if limit is None else limit - count)
                    if redriven is None:
                        break
                    count += redriven
        return count

    def _redrive_page(self, partition: int, log: Log, end: int, limit: int | None) -> int | None:
        """Puts back some letters of one partition, and returns how many. Returns None if none is left before `end`."""
        start = self._start(partition, log)
        page = self._letters(log, start, end)
        if not page:
            return None
        ours = self._left(partition, log, page)[:limit]
        stop = ours[-1].number + 1 if limit is not None and len(ours) == limit else page[-1].number + 1
        self._decide(Redrive(partition, start, stop, self._source_ends(ours)))
        return len(ours)

    def _start(self, partition: int, log: Log) -> int:
        """Returns the number before which all letters were put back, or were retired."""
        start = self._leases.redriven_ends.get(partition, 0)
        # Beyond the end of the log: the topic was deleted, and this is a new one with the same name.
        return log.first if start > log.end else max(start, log.first)

    def _source_ends(self, letters: Sequence[Message]) -> list[tuple[int, int]]:
        sources = sorted({_source_partition(letter) for letter in letters})
        return [(source, self._topic.partition(source).end) for source in sources]

    def _decide(self, redrive: Redrive) -> None:
        id = uuid.uuid4().hex
        with self._ledger.changing():
            self._ledger.add("redrive", {"id": id, "redrive": redrive})
        self._put_back(id, redrive)

    def _put_back(self, id: str, redrive: Redrive) -> None:
        # The intent must be on disk before the records that it announces.
        self._ledger.sync()
        log, marker = self.topic.logs[redrive.partition], bytes.fromhex(id)
        page = self._letters(log, redrive.start, redrive.end) if redrive.numbers is None else []
        page += self._page(log, redrive.numbers or [])
        letters = self._left(redrive.partition, log, page)
        for partition, since in redrive.since:
            source = self._topic.partition(partition)
            messages = [_revived(letter) for letter in letters if _source_partition(letter) == partition]
            append_once(source, _batch(messages), marker, since, id_of=lambda row: f"{id}-{row}")
            source.sync()
        self._done("redriven", id)

    def _letters(self, log: Log, start: int, end: int) -> list[Message]:
        """Returns the letters from `start` up to `end` that still exist, or the first ones if they are many bytes."""
        start = max(start, log.first)
        if start >= end:
            return []
        letters = log.read(start, limit=min(end - start, REDRIVE_COUNT_MAX), bytes_max=REDRIVE_BYTES_MAX)
        return [letter for letter in letters if letter.number < end]

    def _left(self, partition: int, log: Log, letters: Sequence[Message]) -> list[Message]:
        """Returns the letters that are this group's and were not put back one by one."""
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


def picked_numbers(leases: Leases, partition: int, log: Log) -> Collection[int]:
    """Returns the letters of a partition that were put back one by one."""
    picked = leases.redriven_numbers.get(partition, ())
    return picked if max(picked, default=-1) < log.end else ()


def letters_name(topic: TopicView) -> str:
    """Returns the name of the dead-letter topic. Raises BadInput if the topic cannot have one."""
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    if name == topic.name:
        raise BadInput(f"topic {name!r} cannot have its own dead letters: name another one with dead_letter=…")
    return checked_name("dead-letter topic", name)


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
    """Returns the letter, without its content if that is too large for the log: Kafka clients may put such bodies."""
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


def _fitting(kept: dict[str, bytes], added: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns both together. If there is no room for all headers, the last ones of the message are dropped."""
    while kept:
        try:
            pack_headers({**kept, **added})
        except TooLarge:
            kept.popitem()
        else:
            break
    return {**kept, **added}


def _revived(letter: Message) -> Message:
    return letter._replace(headers=_without_ours(letter.headers))


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
