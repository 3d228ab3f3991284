"""Stream groups: members share the partitions of a topic. Each reads its own in order, and commits its positions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from warren.api.values import Where
from warren.clock import Duration
from warren.errors import GroupClosed, LogClosed, NoSuchGroup, NoSuchTopic, NotALog, WarrenError
from warren.limits import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.message import Message
from warren.queue.state import paths
from warren.queue.state.group_settings import GroupSettings, group_names, read_settings
from warren.queue.state.housekeeping import Duty, Keeper
from warren.queue.state.topic_view import TopicView
from warren.queue.stream import positions as stored
from warren.queue.stream.membership import Membership, share
from warren.queue.stream.ownership import Claim, OwnedPartition, Ownership
from warren.queue.stream.positions import number_of
from warren.queue.stream.rotation import LOOK_WAITING_S, checked_limit, checked_wait_s
from warren.storage.disk.open_files import process_residents
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import Page, ScanRoom

GONE: Final = (LogClosed, NotALog, FileNotFoundError)
"""The errors that occur if another process has deleted the topic or the group."""
LOOK_S: Final = 0.05
"""How often a reading member checks for other members. When another process rings the store, it checks immediately."""
LOOK_S_MIN: Final = 0.001
"""A store may be rung often and for other reasons. A member checks no more often than this."""
LOOK_IDLE_S: Final = 0.2
"""How often the store's keeper checks for a member that does not read."""


class StreamGroup:
    """One member of a stream group.

    Any thread may use it; a thread that wants partitions of its own opens another member.

    One living member at a time owns a partition, and reads it in order. Committed messages are never read again. If the
    partition goes to another member, that one reads again what was not committed. A partition can be handed over when
    this member reads on, commits, closes, or has nothing uncommitted.
    """

    def __init__(self, topic: TopicView, name: str, settings: GroupSettings) -> None:
        self.topic, self.name = topic, name
        self._store, self._directory = topic.store, paths.group_directory(topic.directory, name)
        self._take_settings(settings)
        self._looking = threading.Lock()
        self._membership = Membership(self._store, self._directory)
        self._ownership = Ownership(topic, name, self._directory)
        self._looked_s, self._rung = 0.0, 0
        self._is_closed = False
        self._end: WarrenError | None = None
        # A member that was collected owns nothing. It leaves the group when the keeper notices that.
        self._finalizer = weakref.finalize(self, self._ownership.close)
        self._duty = _weak_duty(weakref.WeakMethod(self.keep), self._store.keeper, self._membership)
        process_residents().register(self)
        self._store.keeper.add(self._duty)
        try:
            with self._looking:
                self._look(is_asking=True)
        except Exception:
            self.close()
            raise

    def _take_settings(self, settings: GroupSettings) -> None:
        self.settings = settings
        self._filter = None if settings.tag is None else TagFilter.parse(settings.tag)

    # --- Reading ---

    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """Returns up to `limit` messages of the partitions that this member owns, ordered within each partition.

        If there is none, waits up to `wait` seconds for one. Raises FellBehind, with the partition, if retention
        removed the next messages: `seek` sets where to continue.
        """
        checked_limit(limit)
        wait_s = checked_wait_s(wait)
        messages = self._read(limit)
        if messages or not wait_s:
            return messages
        clock = self._store.clock
        deadline_s = clock.steady_s() + wait_s
        while not messages and (left_s := deadline_s - clock.steady_s()) > 0:
            self._wait(left_s)
            messages = self._read(limit)
        return messages

    def read_within(self, limit: int, bytes_max: int, room: ScanRoom) -> list[Message]:
        """Does the same as `read` without waiting, with up to about `bytes_max` bytes of bodies, but at least one
        message.

        If the filter used up `room`, there may be more messages: the next call continues from there.
        """
        return self._read(checked_limit(limit), bytes_max, room)

    def _read(self, limit: int, bytes_max: int | None = None, room: ScanRoom | None = None) -> list[Message]:
        try:
            self._look_if_due(is_asking=True)
            return self._ownership.read(limit, self._filter, bytes_max, room)
        except GONE as error:
            raise self._meaning(error) from error

    def _wait(self, seconds: float) -> None:
        if not self._ownership.partitions:
            self._store.wakeup.sleep(self._rung, min(seconds, LOOK_WAITING_S))
            return
        with self._meant():
            self._ownership.wait(seconds)

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the member is closed.

        `commit` commits up to the last message that was yielded.
        """
        while not self._is_closed:
            turn = self._look_ahead()
            if turn is not None:
                yield from self._give(*turn)
            else:
                self._wait(LOOK_WAITING_S)

    def _look_ahead(self) -> tuple[OwnedPartition, Page] | None:
        with self._meant():
            self._look_if_due(is_asking=True)
            return self._ownership.look_ahead(READ_LIMIT_DEFAULT, self._filter)

    def _give(self, owned: OwnedPartition, page: Page) -> Iterator[Message]:
        """Yields the messages of a page while the partition is owned and no other thread moves in it."""
        position = owned.position
        for message in page.messages:
            if self._is_closed:
                return
            with self._meant():
                self._look_if_due(is_asking=True)
            if not self._ownership.step(owned, position, message.number + 1, is_delivered=True):
                return
            position = message.number + 1
            yield message
        self._ownership.step(owned, position, page.next_number, is_delivered=False)

    # --- Committing and going elsewhere ---

    def commit(self, positions: Mapping[int, int] | None = None) -> dict[int, int]:
        """Commits everything that was read, or everything before `positions`. Returns the committed positions by
        partition.

        It is as durable as the topic's settings say when this returns. A partition that went to another member is left
        out, and read there again. A position below the committed one changes nothing: `seek` goes back. Raises
        NotOwner, and commits nothing, if `positions` names a partition that went to another member.
        """
        self._check_open()
        try:
            if positions is None:
                committed = self._ownership.commit_read()
            else:
                committed = dict(positions)
                self._ownership.commit(committed)
            self._look_if_due(is_asking=False)
        except GONE as error:
            raise self._meaning(error) from error
        return committed

    def seek(self, to: Where, partition: int | None = None) -> dict[int, int]:
        """Moves to a number, to the first message at or after a time, to START or to END.

        Returns the numbers by partition.

        Applies to `partition`, or to all partitions that this member owns. The new position is stored immediately, for
        later owners too, and discards messages that were read and not committed. Raises NotOwner if another member owns
        the partition.
        """
        with self._meant():
            self._look_if_due(is_asking=False)
            partitions = self.partitions
            if partition is not None:
                self.topic.partition(partition)
                partitions = [partition]
            self._ownership.check_owned(partitions)
            numbers = {number: number_of(self.topic.partition(number), to) for number in partitions}
            self._ownership.seek(numbers)
        return numbers

    def rewind(self) -> None:
        """Moves back, so that messages that were read and not committed are read again."""
        self._check_open()
        self._ownership.rewind()

    def unread(self, messages: Sequence[Message]) -> None:
        """Reads these messages of the latest `read` again, if this member still owns their partitions."""
        self._check_open()
        self._ownership.unread({message.partition: message.number for message in reversed(messages)})

    # --- For transactions ---

    def read_positions(self) -> dict[int, int]:
        """Returns, by partition, the number after the last message that this member has read and not committed."""
        return self._ownership.read_positions()

    def claim(self, positions: Mapping[int, int] | None) -> Claim:
        """Returns the positions that a transaction is to commit: these, or those after the messages that this member
        has read.

        Raises NotOwner if one of the partitions was given up since it was read.
        """
        return self._ownership.claim(positions)

    def check_claim(self, owned: Mapping[int, OwnedPartition]) -> None:
        """Raises NotOwner if one of the partitions was given up: the last check before a transaction is decided."""
        self._ownership.check_claim(owned)

    def apply_positions(self, positions: Mapping[int, int]) -> None:
        """Commits the positions of a committed transaction, regardless of which member owns the partitions now.

        Takes no lock that is held while `store.settle` is called. Without a member, `positions.store_positions` does
        this.
        """
        self._ownership.apply(positions)

    # --- Where the group stands ---

    @property
    def partitions(self) -> list[int]:
        """The partitions that this member owns now."""
        return self._ownership.partitions

    def owned(self) -> list[int]:
        """Returns the owned partitions. A remote member answers this without a request to the broker."""
        return self._ownership.partitions

    def members(self) -> list[str]:
        """Returns the ids of all living members of the group, in all processes."""
        self._check_open()
        return self._membership.living()

    @property
    def id(self) -> str:
        """The id of this member."""
        return self._membership.id

    def position(self, partition: int) -> int:
        """Returns the number that the group reads next.

        If this member owns the partition, that is after the last message that was read.
        """
        self._check_open()
        log = self.topic.partition(partition)
        position = self._ownership.position(partition)
        if position is not None:
            return position
        with self._meant():
            stored.begin(self.topic, self.name, self.settings.start)
            return stored.stored_position(log, self.name)

    def positions(self) -> dict[int, int]:
        """Returns the `position` of every partition."""
        with self._meant():
            self._look_if_due(is_asking=False)
        return {partition: self.position(partition) for partition in range(self.topic.partition_count)}

    def lag(self) -> dict[int, int]:
        """Returns, by partition, how many messages are not committed, including those that the filter omits."""
        with self._meant():
            self._look_if_due(is_asking=False)
            stored.begin(self.topic, self.name, self.settings.start)
            return {
                partition: max(0, log.end - stored.stored_position(log, self.name))
                for partition, log in enumerate(self.topic.logs)
            }

    # --- Who owns what ---

    def _look_if_due(self, *, is_asking: bool) -> None:
        """Checks for changed members, unless that was checked just now."""
        if self._is_closed:
            self._check_open()
        store = self._store
        age_s = store.clock.steady_s() - self._looked_s
        if age_s < LOOK_S and (age_s < LOOK_S_MIN or store.wakeup.value() == self._rung):
            return
        with self._looking:
            self._look(is_asking=is_asking)

    def _look(self, *, is_asking: bool) -> None:
        """Gives up partitions that other members should own, and takes those that this member should own if they are
        free.

        A caller that continues to read (`is_asking`) has had its chance to commit: then uncommitted partitions are
        given up too.
        """
        store, topic = self._store, self.topic
        self._check_open()
        if not self._membership.has_joined:
            # Joins in a child of the process that joined, at its first call.
            self._membership.join()
        self._rung, self._looked_s = store.wakeup.value(), store.clock.steady_s()
        partition_count = topic.see_partitions()
        members = self._membership.living()
        settings = read_settings(topic.filesystem, topic.directory, self.name)
        if settings is None or self.id not in members:
            raise self._deleted()
        if settings != self.settings:
            # Another member has changed the filter.
            self._take_settings(settings)
        own = share(partition_count, members, self.id)
        if self._ownership.give_up(own.__contains__, uncommitted=is_asking):
            store.wakeup.ring()
        missing = sorted(set(own).difference(self._ownership.partitions))
        if missing:
            stored.begin(topic, self.name, self.settings.start)
            self._ownership.take(missing)

    def keep(self) -> float:
        """Checks for other members while this one does not read. The keeper calls it. Returns when to call again."""
        if not self._is_closed and self._membership.has_joined and self._looking.acquire(blocking=False):
            try:
                # Deleted or closed at this moment: the next call of the member raises the error.
                with suppress(NoSuchGroup, NoSuchTopic, GroupClosed, *GONE):
                    self._look(is_asking=False)
            finally:
                self._looking.release()
        return LOOK_IDLE_S

    def _deleted(self) -> WarrenError:
        """Returns the error for missing files of this member: it was closed, or the group was deleted by another
        process.
        """
        if self._is_closed:
            return GroupClosed(self.topic.name, self.name)
        has_topic = self._store.has_topic(self.topic.name)
        self._end = NoSuchGroup(self.topic.name, self.name) if has_topic else NoSuchTopic(self.topic.name)
        self.close()
        return self._end

    @contextmanager
    def _meant(self) -> Iterator[None]:
        try:
            yield
        except GONE as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> Exception:
        """Returns the error that explains a missing file: in most cases, another process deleted the topic or the
        group.
        """
        self._store.check_open()
        if not self._store.has_topic(self.topic.name):
            return NoSuchTopic(self.topic.name)
        if self.name not in group_names(self.topic.filesystem, self.topic.directory):
            return NoSuchGroup(self.topic.name, self.name)
        return error

    # --- Closing ---

    def _check_open(self) -> None:
        self._store.check_open()
        if self._is_closed:
            raise self._end or GroupClosed(self.topic.name, self.name)

    def close(self) -> None:
        """Leaves the group. Other members read what was not committed. A second call does nothing."""
        self._is_closed = True
        if self._finalizer.detach() is not None:
            self._store.keeper.remove(self._duty)
            # The other members are woken after the locks are released, so that they can take them.
            self._ownership.close()
            self._membership.leave()

    # --- As a resident of the process: called after a fork, has no files to close ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        self._looking = threading.Lock()
        self._membership.after_fork()
        self._ownership.after_fork()
        self._looked_s = -WAIT_S_MAX

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"owns {self.partitions}"
        return f"<StreamGroup {self.name} of {self.topic.name}, {state}>"


def _weak_duty(method: weakref.WeakMethod[Callable[[], float]], keeper: Keeper, membership: Membership) -> Duty:
    """Returns a duty for the keeper that does not keep the member alive. When the member is collected, it leaves."""

    def duty() -> float:
        called = method()
        if called is not None:
            return called()
        keeper.remove(duty)
        membership.leave()
        return LOOK_IDLE_S

    return duty
