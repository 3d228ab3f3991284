"""The partitions that one member of a stream group owns, and the messages of each that it has read
and not committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from warren.errors import BadInput, NeedsMemory, NotOwner, NumberRetired, WarrenError
from warren.message import Message
from warren.queue.state import paths
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.positions import store_position, stored_position
from warren.queue.stream.rotation import Cursor, PageCollector, Rotation
from warren.storage import Log, QueueReader
from warren.storage.disk.filesystem import Lock
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import Page, ScanRoom


class OwnedPartition(Cursor):
    """A partition whose lock the member holds. `position` is the number after the last message that it read.

    `committed` is the stored position; `delivered_end` is the number after the last message that the caller got.
    """

    __slots__ = ("_log", "_reader", "committed", "delivered_end", "lock")

    def __init__(self, partition: int, lock: Lock, committed: int) -> None:
        super().__init__(partition, committed)
        self.lock = lock
        self.committed = self.delivered_end = committed
        self._log: Log | None = None
        self._reader: QueueReader | None = None

    @property
    def is_uncommitted(self) -> bool:
        """Whether the caller got messages that it has not committed."""
        return self.delivered_end > self.committed

    def store(self, log: Log, group: str, number: int) -> None:
        """Commits `number`."""
        if self._reader is None or log is not self._log:
            # The topic opens its logs again when its settings change.
            self._log, self._reader = log, log.reader(group)
        self._reader.seek(number)
        self._reader.commit()
        self.committed = number

    def go_to(self, number: int) -> None:
        """Continues at `number`, regardless of what was read before."""
        self.position = self.delivered_end = number


class Claim(NamedTuple):
    """Positions to commit, and the partitions that were owned at that moment."""

    positions: dict[int, int]
    owned: dict[int, OwnedPartition]


class Ownership:
    """The partitions that one member owns. A partition is in here exactly while its lock is held. Any thread may call.

    Two members never own a partition at the same time, even if they disagree about the members: the lock is the
    kernel's, and a process that dies frees it. `mutex` is held only for storage, never while waiting for something
    else.
    """

    def __init__(self, topic: TopicView, group: str, group_directory: str) -> None:
        self._topic, self._group, self._directory = topic, group, group_directory
        self._is_closed = False
        self._forget()

    def _forget(self) -> None:
        self._mutex = threading.Lock()
        self._owned: dict[int, OwnedPartition] = {}
        self._left: set[int] = set()
        """Partitions that were given up with messages that were read and not committed; until a rewind or a commit."""
        self._rotation: Rotation[OwnedPartition] = Rotation(self._topic.name)

    @property
    def partitions(self) -> list[int]:
        return sorted(self._owned)

    # --- Taking and giving up ---

    def take(self, partitions: Iterable[int]) -> None:
        """Takes those of `partitions` that no other member owns.

        Reading continues at the position that the last owner committed.
        """
        filesystem = self._topic.filesystem
        locks: dict[int, Lock] = {}
        try:
            for partition in partitions:
                lock = filesystem.lock(paths.owner_lock(self._directory, partition))
                if lock.try_acquire():
                    locks[partition] = lock
                else:
                    lock.close()
            if not locks:
                return
            # The last owner may have died in the middle of carrying out a transaction that it had committed.
            self._topic.store.settle()
            # No member may read messages that a prepared transaction has read, as long as it may still be committed.
            for partition in self._topic.store.undecided(self._topic.name, self._group) & locks.keys():
                locks.pop(partition).close()
            logs = self._topic.logs
            new_locks = {
                partition: OwnedPartition(partition, lock, stored_position(logs[partition], self._group))
                for partition, lock in locks.items()
            }
        except BaseException:
            for lock in locks.values():
                lock.close()
            raise
        with self._mutex:
            if self._is_closed:
                _free(new_locks.values())
            else:
                self._change({**self._owned, **new_locks})

    def give_up(self, is_wanted: Callable[[int], bool], *, uncommitted: bool) -> int:
        """Gives up the partitions for which `is_wanted` is false, and returns how many.

        With `uncommitted`, also those with uncommitted messages, which the next owner reads again.
        """
        with self._mutex:
            going = [
                owned
                for owned in self._owned.values()
                if not is_wanted(owned.partition) and (uncommitted or not owned.is_uncommitted)
            ]
            if going:
                numbers = {owned.partition for owned in going}
                self._left.update(owned.partition for owned in going if owned.is_uncommitted)
                self._change({number: owned for number, owned in self._owned.items() if number not in numbers})
            _free(going)
            return len(going)

    def _change(self, owned: dict[int, OwnedPartition]) -> None:
        self._owned = owned
        self._rotation.put(list(owned.values()))

    def close(self) -> None:
        """Gives up everything, including partitions that another thread is taking at this moment."""
        with self._mutex:
            self._is_closed = True
        self.give_up(lambda partition: False, uncommitted=True)

    def after_fork(self) -> None:
        """In a child process: owns nothing. The files are closed, so that the locks end with the parent."""
        _free(self._owned.values())
        self._forget()

    # --- Reading ---

    def read(
        self, limit: int, tag: TagFilter | None, bytes_max: int | None = None, room: ScanRoom | None = None
    ) -> list[Message]:
        """Returns up to `limit` messages, and about `bytes_max` bytes, of one partition after the other.

        Scans no more than `room` allows.
        """
        with self._mutex:
            collected = PageCollector(limit, bytes_max)
            for _ in range(len(self._owned)):
                try:
                    turn = self._rotation.next_page(self._topic.logs, collected.room, tag, collected.bytes_room, room)
                except WarrenError as error:
                    if collected.messages or isinstance(error, NeedsMemory):
                        # The next call meets the error again, or has more memory for this partition.
                        self._rotation.turn_back()
                    if not collected.messages:
                        raise
                    break
                if turn is None:
                    break
                owned, page = turn
                collected.add(page)
                owned.go_to(page.next_number)
                if not collected.room:
                    break
            return collected.messages

    def look_ahead(self, limit: int, tag: TagFilter | None) -> tuple[OwnedPartition, Page] | None:
        """Returns the next page. `step` then moves past each of its messages."""
        with self._mutex:
            return self._rotation.next_page(self._topic.logs, limit, tag)

    def step(self, owned: OwnedPartition, position: int, to: int, *, is_delivered: bool) -> bool:
        """Moves from `position` to `to`.

        Returns False if the partition is no longer owned, or another thread has read from it.
        """
        with self._mutex:
            if self._owned.get(owned.partition) is not owned or owned.position != position:
                return False
            owned.position = to
            if is_delivered:
                owned.delivered_end = to
            return True

    def wait(self, seconds: float) -> None:
        """Returns when there may be something to read, after `seconds` at the latest."""
        with self._mutex:
            rotation = self._rotation
        rotation.wait(self._topic.logs, seconds, self._topic.clock)

    # --- Committing ---

    def read_positions(self) -> dict[int, int]:
        """Returns, by partition, the number after the last message that was read, if it is not committed."""
        with self._mutex:
            return self._read_positions()

    def _read_positions(self) -> dict[int, int]:
        return {number: owned.position for number, owned in self._owned.items() if owned.position != owned.committed}

    def check_owned(self, partitions: Iterable[int]) -> None:
        """Raises NotOwner if one of the partitions is not owned."""
        missing = sorted(set(partitions) - self._owned.keys())
        if missing:
            raise NotOwner(self._topic.name, self._group, missing)

    def claim(self, positions: Mapping[int, int] | None) -> Claim:
        """Returns these positions, or those after the messages that were read and not committed, with the owned
        partitions.

        Raises NotOwner if a partition was given up since it was read: another member may have read the same, even if
        the partition came back.
        """
        with self._mutex:
            claimed = self._read_positions() if positions is None else dict(positions)
            left = self._left if positions is None else self._left.intersection(claimed)
            missing = sorted(left | (claimed.keys() - self._owned.keys()))
            if missing:
                raise NotOwner(self._topic.name, self._group, missing)
            return Claim(claimed, {partition: self._owned[partition] for partition in claimed})

    def check_claim(self, owned: Mapping[int, OwnedPartition]) -> None:
        """Raises NotOwner if one of the partitions was given up since the claim."""
        missing = sorted(partition for partition, each in owned.items() if self._owned.get(partition) is not each)
        if missing:
            raise NotOwner(self._topic.name, self._group, missing)

    def _check(self, positions: Mapping[int, int]) -> None:
        self.check_owned(positions)
        for partition, number in positions.items():
            _check_number(self._topic.logs[partition], number)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Commits these positions: all, or none if a partition is not owned or has no such message.

        A commit never goes back. A client whose connections were lost joins again and repeats its commit. In between,
        another member may have committed further, and its committed messages must not be read again.
        """
        with self._mutex:
            self._check(positions)
            for partition, number in positions.items():
                owned = self._owned[partition]
                if number > owned.committed:
                    self._commit_one(owned, number)
            self._left.difference_update(positions)

    def commit_read(self) -> dict[int, int]:
        """Commits everything that was read. Returns the number after the last message, by partition."""
        with self._mutex:
            changed = self._read_positions()
            for partition, number in changed.items():
                self._commit_one(self._owned[partition], number)
            self._left.clear()
            return changed

    def apply(self, positions: Mapping[int, int]) -> None:
        """Commits `positions`, even of partitions that this member does not own."""
        with self._mutex:
            for partition, number in positions.items():
                owned = self._owned.get(partition)
                if owned is not None:
                    self._commit_one(owned, number)
                else:
                    store_position(self._topic.partition(partition), self._group, number)

    def _commit_one(self, owned: OwnedPartition, number: int) -> None:
        owned.store(self._topic.logs[owned.partition], self._group, number)
        owned.position = max(owned.position, number)

    def seek(self, positions: Mapping[int, int]) -> None:
        """Continues at these numbers, in this process and in the process that owns the partition next."""
        with self._mutex:
            self._check(positions)
            for partition, number in positions.items():
                owned = self._owned[partition]
                owned.store(self._topic.logs[partition], self._group, number)
                owned.go_to(number)
            self._left.difference_update(positions)

    def rewind(self) -> None:
        """Moves back, so that messages that were read and not committed are read again."""
        with self._mutex:
            for owned in self._owned.values():
                owned.go_to(owned.committed)
            self._left.clear()

    def unread(self, positions: Mapping[int, int]) -> None:
        """Reads again from these numbers on, unless they were committed or another thread moved in the meantime."""
        with self._mutex:
            for partition, number in positions.items():
                owned = self._owned.get(partition)
                if owned is not None and owned.committed <= number <= owned.position:
                    owned.go_to(number)

    def position(self, partition: int) -> int | None:
        """Returns the number after the last message that was read, or None if the partition is not owned."""
        owned = self._owned.get(partition)
        return None if owned is None else owned.position


def _free(partitions: Iterable[OwnedPartition]) -> None:
    for owned in partitions:
        owned.lock.close()


def _check_number(log: Log, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= log.end:
        raise BadInput(f"number {number!r}: expected a number from {log.first} to {log.end}")
    if number < log.first:
        raise NumberRetired(number, log.first)
