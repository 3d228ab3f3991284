"""Dead letters: messages that failed too often go to a topic of their own, exactly once, and come back when told to."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.config import BLOCK_SIZE_DEFAULT, BLOCK_SIZE_MAX, MARKER_SIZE_MAX
from warren.errors import BadInput, CorruptRecord, NumberRetired, SettingsDiffer, TooLarge, UnsupportedByVersion
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.lease_order import Lease
from warren.queue.leases import Burial, Leases, Redrive
from warren.queue.ledger import Ledger
from warren.queue.names import checked_name
from warren.queue.once import append_once, written_count
from warren.queue.shared_lock import SharedLock
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.packing import pack_batch
from warren.storage.record import pack_headers, record_size

if TYPE_CHECKING:
    from warren.queue.topic import Topic

HEADER_PREFIX: Final = "warren.dead-"
DAMAGE_HEADER: Final = "warren.damage"
"""What a letter has instead of a body whose message cannot be read, or is too large. It is not put back."""
REASON_SIZE_MAX: Final = 1000
"""In bytes: what is longer is cut before it comes here."""
BURIAL_COUNT_MAX: Final = 100
"""How many messages become dead letters with one commit."""
REDRIVE_COUNT_MAX: Final = 1000
REDRIVE_BYTES_MAX: Final = 16 << 20
"""How many messages, and about how many bytes of them, are put back with one commit."""
LETTERS_PARTITION: Final = 0


def dead_letter_topic(topic: str, dead_letter: str) -> str:
    """The name of the topic of the dead letters of `topic`, whose setting `dead_letter` is."""
    return dead_letter or f"{topic}.dead"


class Failed(NamedTuple):
    """A message that is to become a dead letter, if its lease is still this one.

    If the holder of the lease asks for it (`by_holder`), the time of the lease does not count, because the lease may
    be renewed at any moment. Otherwise the time ran out, and a lease that was renewed since then is another one.
    """

    partition: int
    number: int
    lease: Lease
    reason: str
    by_holder: bool = False

    def is_leased_as(self, found: Lease | None) -> bool:
        """Whether the lease that the ledger has now is this one. Compared by value: replaying makes new objects."""
        if found is not None and self.by_holder:
            found = found._replace(time_us=self.lease.time_us)
        return found == self.lease


class DeadLetters:
    """The dead letters of one group. Any thread may call; `lock` makes one process of all the only one at work here.

    What is to be appended is first written to the ledger, as an intent, and synced. Whoever finds an intent while it
    holds the lock finds one that nobody else is about to finish, and finishes it: a marker tells what is there already.
    """

    def __init__(self, topic: Topic, group: str, ledger: Ledger, leases: Leases, lock: SharedLock) -> None:
        self._topic, self._group = topic, group
        self._ledger, self._leases, self._lock = ledger, leases, lock

    @property
    def topic(self) -> Topic:
        """Where dead letters go; made on first use."""
        source = self._topic
        store, name = source.store, letters_name(source)
        if not store.has_topic(name):
            # With room for the headers that a letter has and its message had not.
            block_size = min(max(2 * source.settings.block_size, BLOCK_SIZE_DEFAULT), BLOCK_SIZE_MAX)
            try:
                return store.topic(name, 1, version=2, durability=source.settings.durability, block_size=block_size)
            except SettingsDiffer:
                # Somebody else has made it at the same moment, as it should be for them.
                pass
        return store.topic(name)

    def _log(self) -> Log:
        topic = self.topic
        topic.check_takes_puts()
        log = topic.partition(LETTERS_PARTITION)
        if log.version == 1:
            raise UnsupportedByVersion("a dead letter, which has headers", 1)
        return log

    # --- To the dead ---

    def bury(self, failed: Sequence[Failed]) -> list[Failed]:
        """Make dead letters of the messages whose lease is still the same. Returns those that it buried."""
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
        """Finish what others, or we ourselves, began and did not finish."""
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
        # The intent, on disk before what it announces.
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
                # One of them would keep all others of the group waiting for ever.
                log.append_many(**_batch([_taken_by(log, letter) for letter in letters])._asdict(), marker=marker)
        log.sync()
        self._done("buried", id)

    def _message(self, partition: int, number: int) -> Message | None:
        """The message; None where it was retired, and is nobody's any more. Of one that is damaged, its place alone."""
        try:
            return self._topic.logs[partition].at(number)
        except NumberRetired:
            return None
        except CorruptRecord as error:
            # Without the path: who reads letters over the network is not told where the store lies.
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
        """Put these letters of a partition back, those that are this group's and were not put back yet; how many."""
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
        """The first of these letters that are still there, as many as are put back with one commit."""
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
        """Put up to `limit` letters of this group back into the partitions they came from; how many it were."""
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
        """Put back some letters of one partition; None where there are none left before `end`."""
        start = self._start(partition, log)
        page = self._letters(log, start, end)
        if not page:
            return None
        ours = self._left(partition, log, page)[:limit]
        stop = ours[-1].number + 1 if limit is not None and len(ours) == limit else page[-1].number + 1
        self._decide(Redrive(partition, start, stop, self._source_ends(ours)))
        return len(ours)

    def _start(self, partition: int, log: Log) -> int:
        """The number before which all letters were put back, or are gone."""
        start = self._leases.redriven_ends.get(partition, 0)
        # Further than the log reaches: the topic was deleted, and this is another of the same name.
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
        # The intent, on disk before what it announces.
        self._ledger.sync()
        log, marker = self.topic.logs[redrive.partition], bytes.fromhex(id)
        page = self._letters(log, redrive.start, redrive.end) if redrive.numbers is None else []
        page += self._page(log, redrive.numbers or [])
        letters = self._left(redrive.partition, log, page)
        for partition, since in redrive.since:
            source = self._topic.partition(partition)
            messages = [_revived(letter) for letter in letters if _source_partition(letter) == partition]
            if source.version == 1:
                messages = [_with_own_id(message, id, row) for row, message in enumerate(messages)]
            append_once(source, _batch(messages), marker, since)
            source.sync()
        self._done("redriven", id)

    def _letters(self, log: Log, start: int, end: int) -> list[Message]:
        """The letters from `start` up to `end` that are still there, or the first of them where they are many bytes."""
        start = max(start, log.first)
        if start >= end:
            return []
        letters = log.read(start, limit=min(end - start, REDRIVE_COUNT_MAX), bytes_max=REDRIVE_BYTES_MAX)
        return [letter for letter in letters if letter.number < end]

    def _left(self, partition: int, log: Log, letters: Sequence[Message]) -> list[Message]:
        """Those of the letters that are this group's and were not put back one by one."""
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
    """The letters of a partition that were put back one by one, and not with all before them."""
    picked = leases.redriven_numbers.get(partition, ())
    return picked if max(picked, default=-1) < log.end else ()


def letters_name(topic: Topic) -> str:
    """The name of the topic that has the dead letters of `topic`. BadInput where there can be none."""
    name = topic.settings.dead_letter or f"{topic.name}.dead"
    if name == topic.name:
        raise BadInput(f"topic {name!r} cannot have its own dead letters: name another one with dead_letter=…")
    return checked_name("dead-letter topic", name)


def _source_partition(letter: Message) -> int:
    return int(letter.headers[HEADER_PREFIX + "partition"])


def _letter(message: Message, group: str, attempts: int, reason: str) -> Message:
    """The message as it goes to the dead letters."""
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
    """The letter, or its place alone if the log takes no message of its size: a Kafka client may put such bodies."""
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
    """Both together; the last of those that are kept go where there is no room for all."""
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


def _with_own_id(message: Message, id: str, row: int) -> Message:
    """In version 1 an id tells whether a message was put back: one that has none gets one."""
    return message if message.id else message._replace(id=f"{id}-{row}")


def _batch(messages: Sequence[Message]) -> Batch:
    """The messages as columns, without those columns that say nothing."""
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
