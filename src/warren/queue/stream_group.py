"""Stream groups: members share the partitions of a topic; each reads its own in order, and commits how far it got."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from warren.clock import Duration
from warren.config import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.errors import GroupClosed, LogClosed, NoSuchGroup, NoSuchTopic, NotALog, WarrenError
from warren.message import Message
from warren.queue import positions as stored
from warren.queue import store_paths
from warren.queue.assignment import share
from warren.queue.group_settings import GroupSettings, read_settings
from warren.queue.keeper import Duty, Keeper
from warren.queue.membership import Membership
from warren.queue.ownership import Claim, Owned, Ownership
from warren.queue.positions import Where, number_of
from warren.queue.rotation import LOOK_WAITING_S, checked_limit, checked_wait_s
from warren.storage.read import Page, ScanRoom
from warren.storage.residents import process_residents
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.queue.topic import Topic

GONE: Final = (LogClosed, NotALog, FileNotFoundError)
"""What is met when somebody deleted the topic or the group."""
LOOK_S: Final = 0.05
"""How often a member that reads looks who else is there; when the store is rung, it looks at once."""
LOOK_S_MIN: Final = 0.001
"""The store may be rung for other reasons, and often: a member looks no more often than this."""
LOOK_IDLE_S: Final = 0.2
"""How often the store's keeper looks for a member that does not read."""


class StreamGroup:
    """One member of a stream group. Any thread may use it; threads that want partitions of their own open their own.

    A partition is owned by one living member at a time, and given in order. What was committed is never given again;
    what was read and not committed when the partition went to another member is given to that one again. A partition
    goes when this member comes back for more, commits or closes, or has nothing uncommitted.
    """

    def __init__(self, topic: Topic, name: str, settings: GroupSettings) -> None:
        self.topic, self.name = topic, name
        self._store, self._directory = topic.store, store_paths.group_directory(topic.directory, name)
        self._take_settings(settings)
        self._looking = threading.Lock()
        self._membership = Membership(self._store, self._directory)
        self._ownership = Ownership(topic, name, self._directory)
        self._looked_s, self._rung = 0.0, 0
        self._is_closed = False
        self._end: WarrenError | None = None
        # A member that nobody has a reference to any more owns nothing, and leaves when the keeper finds it gone.
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
        """Up to `limit` messages of the partitions that this member owns, ordered within each partition.

        Where there is none, waits up to `wait` seconds for one. FellBehind, with the partition, where retention
        removed what came next: `seek` says where to go on.
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
        """The same without a wait, and no more than about `bytes_max` bytes of bodies: one message in any case.

        If the filter used `room` up, there may be more: the next call goes on behind what was looked through.
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
        """Message after message, without end, until the member is closed.

        `commit` commits up to the message that was given last.
        """
        while not self._is_closed:
            found = self._look_ahead()
            if found is not None:
                yield from self._give(*found)
            else:
                self._wait(LOOK_WAITING_S)

    def _look_ahead(self) -> tuple[Owned, Page] | None:
        with self._meant():
            self._look_if_due(is_asking=True)
            return self._ownership.look_ahead(READ_LIMIT_DEFAULT, self._filter)

    def _give(self, owned: Owned, page: Page) -> Iterator[Message]:
        """The messages of a page, as long as the partition is owned and nobody goes elsewhere in it."""
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
        """What was read is done with, or what comes before `positions`; by partition, what was committed.

        As durable as the topic's settings say when it returns. What was read of a partition that went to another
        member is left out, and given there again; NotOwner, and nothing is committed, where `positions` names one.
        """
        self._check_open()
        try:
            if positions is None:
                done = self._ownership.commit_read()
            else:
                done = dict(positions)
                self._ownership.commit(done)
            self._look_if_due(is_asking=False)
        except GONE as error:
            raise self._meaning(error) from error
        return done

    def seek(self, to: Where, partition: int | None = None) -> dict[int, int]:
        """Go to a number, to the first message at or after a time, to START or to END; by partition, the number.

        In `partition`, or in all that this member owns. It counts at once, for whoever owns the partition later as
        well: what was read and not committed is forgotten. NotOwner where another member owns it.
        """
        with self._meant():
            self._look_if_due(is_asking=False)
            partitions = self.partitions if partition is None else [self._checked(partition)]
            self._ownership.check_owned(partitions)
            numbers = {number: number_of(self.topic.partition(number), to) for number in partitions}
            self._ownership.seek(numbers)
        return numbers

    def rewind(self) -> None:
        """What was read and not committed is read again."""
        self._check_open()
        self._ownership.rewind()

    def unread(self, messages: Sequence[Message]) -> None:
        """These, which the latest `read` gave, are read again, where this member still owns their partitions."""
        self._check_open()
        self._ownership.unread({message.partition: message.number for message in reversed(messages)})

    def _checked(self, partition: int) -> int:
        self.topic.partition(partition)
        return partition

    # --- For transactions ---

    def read_positions(self) -> dict[int, int]:
        """By partition, the number behind what this member read and has not committed."""
        return self._ownership.read_positions()

    def claim(self, positions: Mapping[int, int] | None) -> Claim:
        """What a transaction is to commit: these positions, or those behind what this member has read.

        NotOwner where one of the partitions was given up since it was read.
        """
        return self._ownership.claim(positions)

    def check_claim(self, owned: Mapping[int, Owned]) -> None:
        """NotOwner where one of them was given up since: the last look before a transaction is decided."""
        self._ownership.check_claim(owned)

    def apply_positions(self, positions: Mapping[int, int]) -> None:
        """A transaction was committed with these positions: they are committed, whoever owns the partitions.

        Takes no lock that is held while `store.settle` is called. Without a member, `positions.store_positions` does.
        """
        self._ownership.apply(positions)

    # --- Where the group stands ---

    @property
    def partitions(self) -> list[int]:
        """The partitions that this member owns now."""
        return self._ownership.partitions

    def owned(self) -> list[int]:
        """The same as far as it is known without asking anybody."""
        return self._ownership.partitions

    def members(self) -> list[str]:
        """The ids of all members of the group that live, in this and other processes."""
        self._check_open()
        return self._membership.living()

    @property
    def id(self) -> str:
        """The id of this member."""
        return self._membership.id

    def position(self, partition: int) -> int:
        """The number that the group gives next: behind what was read, where this member owns the partition."""
        self._check_open()
        log = self.topic.partition(partition)
        position = self._ownership.position(partition)
        if position is not None:
            return position
        with self._meant():
            stored.begin(self.topic, self.name, self.settings.start)
            return stored.stored_position(log, self.name)

    def positions(self) -> dict[int, int]:
        """`position` of every partition."""
        with self._meant():
            self._look_if_due(is_asking=False)
        return {partition: self.position(partition) for partition in range(self.topic.partition_count)}

    def lag(self) -> dict[int, int]:
        """By partition, how many messages were put that the group has not committed, with those its filter omits."""
        with self._meant():
            self._look_if_due(is_asking=False)
            stored.begin(self.topic, self.name, self.settings.start)
            return {
                partition: max(0, log.end - stored.stored_position(log, self.name))
                for partition, log in enumerate(self.topic.logs)
            }

    # --- Who owns what ---

    def _look_if_due(self, *, is_asking: bool) -> None:
        """See who is there, unless that was seen just now."""
        if self._is_closed:
            self._check_open()
        store = self._store
        age_s = store.clock.steady_s() - self._looked_s
        if age_s < LOOK_S and (age_s < LOOK_S_MIN or store.wakeup.value() == self._rung):
            return
        with self._looking:
            self._look(is_asking=is_asking)

    def _look(self, *, is_asking: bool) -> None:
        """Give up what others should own, and take what this member should and nobody holds.

        Whoever asks for more has had its chance to commit: then also what is uncommitted is given up.
        """
        store, topic = self._store, self.topic
        self._check_open()
        if not self._membership.has_joined:
            # In a child of the process that joined, when it first asks for something.
            self._membership.join()
        self._rung, self._looked_s = store.wakeup.value(), store.clock.steady_s()
        partition_count = topic.see_partitions()
        members = self._membership.living()
        settings = read_settings(topic.filesystem, topic.directory, self.name)
        if settings is None or self.id not in members:
            raise self._deleted()
        if settings != self.settings:
            # Another member gave the group another filter.
            self._take_settings(settings)
        wanted = share(partition_count, members, self.id)
        if self._ownership.give_up(wanted.__contains__, uncommitted=is_asking):
            store.wakeup.ring()
        missing = sorted(set(wanted).difference(self._ownership.partitions))
        if missing:
            stored.begin(topic, self.name, self.settings.start)
            self._ownership.take(missing)

    def keep(self) -> float:
        """The store's keeper calls: look for others while this member does not read. When to call again."""
        if not self._is_closed and self._membership.has_joined and self._looking.acquire(blocking=False):
            try:
                # Deleted or closed at this moment: whoever uses the member is told next.
                with suppress(NoSuchGroup, NoSuchTopic, GroupClosed, *GONE):
                    self._look(is_asking=False)
            finally:
                self._looking.release()
        return LOOK_IDLE_S

    def _deleted(self) -> WarrenError:
        """The files of this member are gone: it was closed at this moment, or somebody deleted the group."""
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
        """What a missing file means: most often, that somebody deleted the topic or the group."""
        self._store.check_open()
        if not self._store.has_topic(self.topic.name):
            return NoSuchTopic(self.topic.name)
        if self.name not in self.topic.groups():
            return NoSuchGroup(self.topic.name, self.name)
        return error

    # --- Closing ---

    def _check_open(self) -> None:
        self._store.check_open()
        if self._is_closed:
            raise self._end or GroupClosed(self.topic.name, self.name)

    def close(self) -> None:
        """Leave the group. What was read and not committed is given to others. Closing twice does no harm."""
        self._is_closed = True
        if self._finalizer.detach() is not None:
            self._store.keeper.remove(self._duty)
            # Others are told when the locks are free: whoever wakes up can take them.
            self._ownership.close()
            self._membership.leave()

    # --- As a resident of the process: told when it forks, asked for no files ---

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
    """`method` for the keeper, which must not keep its object alive; when that is gone, the member leaves."""

    def duty() -> float:
        called = method()
        if called is not None:
            return called()
        keeper.remove(duty)
        membership.leave()
        return LOOK_IDLE_S

    return duty
