"""The partitions that one member of a stream group owns, and what it has read of each and not committed yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from warren.errors import BadInput, NotOwner, NumberRetired, WarrenError
from warren.message import Message
from warren.queue import store_paths
from warren.queue.positions import store_position, stored_position
from warren.queue.rotation import Collected, Cursor, Rotation
from warren.storage import Log, QueueReader
from warren.storage.filesystem import Lock
from warren.storage.read import Page, ScanRoom
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.queue.topic import Topic


class Owned(Cursor):
    """A partition whose lock the member holds. `position` is the number behind what it read.

    `committed` is what is stored; `delivered_end` lies behind the last message that was given to the caller.
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
        """Whether messages were given to the caller that it has not committed."""
        return self.delivered_end > self.committed

    def store(self, log: Log, group: str, number: int) -> None:
        """`number` is committed."""
        if self._reader is None or log is not self._log:
            # Changed settings of the topic open its logs anew.
            self._log, self._reader = log, log.reader(group)
        self._reader.seek(number)
        self._reader.commit()
        self.committed = number

    def go_to(self, number: int) -> None:
        """Go on from `number`, whatever was read before."""
        self.position = self.delivered_end = number


class Claim(NamedTuple):
    """Positions that are to be committed, and the partitions as they were owned when that was said."""

    positions: dict[int, int]
    owned: dict[int, Owned]


class Ownership:
    """What one member owns. A partition is in here exactly while its lock is held. Any thread may call.

    Two members never own a partition at once, whatever they believe about each other: the lock is the kernel's, and
    freed by death. `mutex` is held for storage alone, never while something else is waited for.
    """

    def __init__(self, topic: Topic, group: str, group_directory: str) -> None:
        self._topic, self._group, self._directory = topic, group, group_directory
        self._is_closed = False
        self._forget()

    def _forget(self) -> None:
        self._mutex = threading.Lock()
        self._owned: dict[int, Owned] = {}
        self._left: set[int] = set()
        """What was given up while something that was read of it was not committed; until a rewind, or a commit."""
        self._rotation: Rotation[Owned] = Rotation(self._topic.name)

    @property
    def partitions(self) -> list[int]:
        return sorted(self._owned)

    # --- Taking and giving up ---

    def take(self, partitions: Iterable[int]) -> None:
        """Own those of `partitions` that nobody else owns: from what was committed on, by whomever."""
        filesystem = self._topic.filesystem
        locks: dict[int, Lock] = {}
        try:
            for partition in partitions:
                lock = filesystem.lock(store_paths.owner_lock(self._directory, partition))
                if lock.try_acquire():
                    locks[partition] = lock
                else:
                    lock.close()
            if not locks:
                return
            # Whoever owned them may have died in the midst of a transaction that it had committed.
            self._topic.store.settle()
            # What a prepared transaction has read is nobody's to read again while it may be committed.
            for partition in self._topic.store.undecided(self._topic.name, self._group) & locks.keys():
                locks.pop(partition).close()
            logs = self._topic.logs
            taken = {
                partition: Owned(partition, lock, stored_position(logs[partition], self._group))
                for partition, lock in locks.items()
            }
        except BaseException:
            for lock in locks.values():
                lock.close()
            raise
        with self._mutex:
            if self._is_closed:
                _free(taken.values())
            else:
                self._change({**self._owned, **taken})

    def give_up(self, is_wanted: Callable[[int], bool], *, uncommitted: bool) -> int:
        """Give up what is not wanted, the `uncommitted` as well or not; how many partitions that were.

        What was not committed is given to the next owner again.
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

    def _change(self, owned: dict[int, Owned]) -> None:
        self._owned = owned
        self._rotation.put(list(owned.values()))

    def close(self) -> None:
        """Own nothing any more, also of what a thread is taking at this moment."""
        with self._mutex:
            self._is_closed = True
        self.give_up(lambda partition: False, uncommitted=True)

    def after_fork(self) -> None:
        """In a child: own nothing. The files are closed, so that the locks end with the parent."""
        _free(self._owned.values())
        self._forget()

    # --- Reading ---

    def read(
        self, limit: int, tag: TagFilter | None, bytes_max: int | None = None, room: ScanRoom | None = None
    ) -> list[Message]:
        """Up to `limit` messages, and about `bytes_max` bytes of them, of one partition after the other.

        Looks through no more than `room` allows.
        """
        with self._mutex:
            collected = Collected(limit, bytes_max)
            for _ in range(len(self._owned)):
                try:
                    found = self._rotation.next_page(self._topic.logs, collected.room, tag, collected.bytes_room, room)
                except WarrenError:
                    if not collected.messages:
                        raise
                    # First what was read; the next call tells.
                    self._rotation.turn_back()
                    break
                if found is None:
                    break
                owned, page = found
                collected.add(page)
                owned.go_to(page.next_number)
                if not collected.room:
                    break
            return collected.messages

    def look_ahead(self, limit: int, tag: TagFilter | None) -> tuple[Owned, Page] | None:
        """The next page, whose messages are still to be given by `step`."""
        with self._mutex:
            return self._rotation.next_page(self._topic.logs, limit, tag)

    def step(self, owned: Owned, position: int, to: int, *, is_delivered: bool) -> bool:
        """Go from `position` to `to`; False where the partition is no longer owned, or was read from by others."""
        with self._mutex:
            if self._owned.get(owned.partition) is not owned or owned.position != position:
                return False
            owned.position = to
            if is_delivered:
                owned.delivered_end = to
            return True

    def wait(self, seconds: float) -> None:
        """Return when there may be something to read, after `seconds`, or earlier."""
        with self._mutex:
            rotation = self._rotation
        rotation.wait(self._topic.logs, seconds, self._topic.clock)

    # --- Committing ---

    def read_positions(self) -> dict[int, int]:
        """By partition, the number behind what was read and is not committed."""
        with self._mutex:
            return self._read_positions()

    def _read_positions(self) -> dict[int, int]:
        return {number: owned.position for number, owned in self._owned.items() if owned.position != owned.committed}

    def check_owned(self, partitions: Iterable[int]) -> None:
        """NotOwner where one of them is not owned."""
        missing = sorted(set(partitions) - self._owned.keys())
        if missing:
            raise NotOwner(self._topic.name, self._group, missing)

    def claim(self, positions: Mapping[int, int] | None) -> Claim:
        """These positions, or those behind what was read and is not committed, of partitions owned ever since.

        NotOwner where one was given up since it was read: others may have read the same, also if it came back.
        """
        with self._mutex:
            wanted = self._read_positions() if positions is None else dict(positions)
            left = self._left if positions is None else self._left.intersection(wanted)
            missing = sorted(left | (wanted.keys() - self._owned.keys()))
            if missing:
                raise NotOwner(self._topic.name, self._group, missing)
            return Claim(wanted, {partition: self._owned[partition] for partition in wanted})

    def check_claim(self, owned: Mapping[int, Owned]) -> None:
        """NotOwner where one of them was given up since."""
        missing = sorted(partition for partition, each in owned.items() if self._owned.get(partition) is not each)
        if missing:
            raise NotOwner(self._topic.name, self._group, missing)

    def _check(self, positions: Mapping[int, int]) -> None:
        self.check_owned(positions)
        for partition, number in positions.items():
            _check_number(self._topic.logs[partition], number)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Commit what is owned: all of it or, where one partition is not or has no such message, nothing."""
        with self._mutex:
            self._check(positions)
            for partition, number in positions.items():
                self._commit_one(self._owned[partition], number)
            self._left.difference_update(positions)

    def commit_read(self) -> dict[int, int]:
        """Commit what was read; by partition, the number behind it."""
        with self._mutex:
            changed = self._read_positions()
            for partition, number in changed.items():
                self._commit_one(self._owned[partition], number)
            self._left.clear()
            return changed

    def apply(self, positions: Mapping[int, int]) -> None:
        """Commit `positions`, whether they are owned or not."""
        with self._mutex:
            for partition, number in positions.items():
                owned = self._owned.get(partition)
                if owned is not None:
                    self._commit_one(owned, number)
                else:
                    store_position(self._topic.partition(partition), self._group, number)

    def _commit_one(self, owned: Owned, number: int) -> None:
        owned.store(self._topic.logs[owned.partition], self._group, number)
        owned.position = max(owned.position, number)

    def seek(self, positions: Mapping[int, int]) -> None:
        """Go on from these numbers, in this process and, wherever the partition goes, in any other."""
        with self._mutex:
            self._check(positions)
            for partition, number in positions.items():
                owned = self._owned[partition]
                owned.store(self._topic.logs[partition], self._group, number)
                owned.go_to(number)
            self._left.difference_update(positions)

    def rewind(self) -> None:
        """Read again what was read and not committed."""
        with self._mutex:
            for owned in self._owned.values():
                owned.go_to(owned.committed)
            self._left.clear()

    def unread(self, positions: Mapping[int, int]) -> None:
        """Read again from these numbers on, where nobody committed or went elsewhere since."""
        with self._mutex:
            for partition, number in positions.items():
                owned = self._owned.get(partition)
                if owned is not None and owned.committed <= number <= owned.position:
                    owned.go_to(number)

    def position(self, partition: int) -> int | None:
        """The number behind what was read; None where the partition is not owned."""
        owned = self._owned.get(partition)
        return None if owned is None else owned.position


def _free(partitions: Iterable[Owned]) -> None:
    for owned in partitions:
        owned.lock.close()


def _check_number(log: Log, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= log.end:
        raise BadInput(f"number {number!r}: expected a number from {log.first} to {log.end}")
    if number < log.first:
        raise NumberRetired(number, log.first)
