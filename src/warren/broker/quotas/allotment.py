"""Allotment: counts the topics and partitions of each user, and makes new ones within quotas and limits."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from warren.broker.quotas.entities import MUTATIONS, PARTITIONS, TOPICS
from warren.broker.security.peer import ANONYMOUS
from warren.errors import LimitReached, QuotaExceeded, TopicExists
from warren.queue.state import paths
from warren.queue.state.json_file import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from warren.broker.quotas.quotas import Quotas
    from warren.broker.security.peer import Requester
    from warren.broker.settings import BrokerLimits
    from warren.broker.threads import InThread
    from warren.queue.state.settings import TopicSettings
    from warren.queue.topic import Topic
    from warren.transaction.store import Store

ALLOTMENT_LOOK_S: Final = 5.0
"""All topics are read at most this often to count those of each user."""


T = TypeVar("T")


class Owned(NamedTuple):
    """One topic: its owner and its number of partitions."""

    owner: str
    partitions: int


class Most(NamedTuple):
    """The limits of topics and partitions, in total and of one user; None for no limit."""

    topics: int
    partitions: int
    topics_of_user: float | None
    partitions_of_user: float | None


class Allotment:
    """Creates, changes and deletes topics for users, within quotas and limits.

    The coroutines are for the event loop; their work on threads is done by one thread at a time. Topics of other
    processes count too: a new topic immediately, a changed one within ALLOTMENT_LOOK_S. A topic without an owner counts
    as one of ANONYMOUS.
    """

    def __init__(self, store: Store, quotas: Quotas, limits: BrokerLimits, in_thread: InThread) -> None:
        self._store, self._quotas, self._limits, self._in_thread = store, quotas, limits, in_thread
        self._mutex = threading.Lock()
        self._owned: dict[str, Owned] = {}
        self._look_again_s = 0.0

    async def make(
        self,
        requester: Requester,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        is_strict: bool = True,
        must_be_new: bool = False,
    ) -> Topic:
        """Returns the topic `name`, and creates it for the user if it does not exist.

        Raises LimitReached if there would be too many. If the user has recently made too many, raises QuotaExceeded if
        `is_strict`, and otherwise throttles the client. With `must_be_new` raises TopicExists if the topic exists: of
        several such requests at the same time, one creates it.
        """
        values = dict(settings or {})
        if self._store.has_topic(name):
            if must_be_new:
                raise TopicExists(name)
            return await self._in_thread(self._store.topic, name, partitions, **values)
        count = self._store.new_settings(partitions, values).partitions
        self._mutate(requester, count, is_strict=is_strict)

        def make() -> Topic:
            # Another request may have created it since the check above.
            if must_be_new and self._store.has_topic(name):
                raise TopicExists(name)
            return self._store.topic(name, partitions, **values)

        return await self._more(requester, name, count, make)

    async def admit(self, requester: Requester, name: str, make: Callable[[], T]) -> T:
        """Returns what `make` returns, which makes the topic `name` with one partition if it does not exist."""
        if self._store.has_topic(name):
            return await self._in_thread(make)
        self._mutate(requester, 1, is_strict=True)
        return await self._more(requester, name, 1, make)

    async def configure(
        self, requester: Requester, name: str, changes: Mapping[str, Any], *, is_strict: bool = True
    ) -> TopicSettings:
        """Changes settings of a topic, and returns them all. Raises as `make` does if it gets more partitions."""
        if not isinstance(changes.get("partitions"), int):
            return await self._in_thread(self._store.configure_topic, name, changes)
        there = (await self._in_thread(self._store.existing_topic, name)).see_partitions()
        more = max(0, changes["partitions"] - there)
        if more:
            self._mutate(requester, more, is_strict=is_strict)
        most = self._most(requester)

        def configure() -> TopicSettings:
            with self._mutex:
                owner = (self._read(name) or Owned(ANONYMOUS, 0)).owner
                if more:
                    self._check(owner, most, 0, more)
                changed = self._store.configure_topic(name, changes)
                self._owned[name] = Owned(owner, changed.partitions)
                return changed

        return await self._counted(requester, configure)

    async def delete(self, requester: Requester, name: str, *, is_strict: bool = True) -> None:
        """Deletes a topic. If `is_strict`, raises QuotaExceeded if the user has recently deleted or made too many."""
        if self._quotas.is_set:
            topic = await self._in_thread(self._store.existing_topic, name)
            self._mutate(requester, topic.partition_count, is_strict=is_strict)
        await self._in_thread(self._store.delete_topic, name)
        with self._mutex:
            self._owned.pop(name, None)

    # --- Quotas, on the event loop ---

    def _mutate(self, requester: Requester, count: int, *, is_strict: bool) -> None:
        quotas, user = self._quotas, requester.peer.user
        if not quotas.is_set:
            return
        wait_s = quotas.owed_s(user, requester.client_id, [MUTATIONS]) if is_strict else 0.0
        if wait_s:
            raise QuotaExceeded(user, MUTATIONS, wait_s)
        quotas.mutate(user, requester.client_id, count)

    def _most(self, requester: Requester) -> Most:
        limits, user, quotas = self._limits, requester.peer.user, self._quotas
        of_user = (quotas.most(TOPICS, user), quotas.most(PARTITIONS, user)) if quotas.is_set else (None, None)
        return Most(limits.topics_max, limits.partitions_max, *of_user)

    async def _more(self, requester: Requester, name: str, partitions: int, make: Callable[[], T]) -> T:
        user, most = requester.peer.user, self._most(requester)

        def made() -> T:
            with self._mutex:
                if not self._store.has_topic(name):
                    self._check(user, most, 1, partitions)
                topic = make()
                if user != ANONYMOUS:
                    self._store.note_owner(name, user)
                self._owned[name] = Owned(user, partitions)
                return topic

        return await self._counted(requester, made)

    async def _counted(self, requester: Requester, work: Callable[[], T]) -> T:
        try:
            return await self._in_thread(work)
        except LimitReached:
            self._quotas.refused(requester.peer.user)
            raise

    # --- Counts, on a thread ---

    def _check(self, user: str, most: Most, topics: int, partitions: int) -> None:
        """Raises LimitReached if the user or the store would have too many with these topics and partitions."""
        self._look(is_whole=False)
        try:
            self._compare(user, most, topics, partitions)
        except LimitReached:
            # Another process may have deleted some, so all of them are counted again before a request is refused.
            if not self._look(is_whole=True):
                raise
            self._compare(user, most, topics, partitions)

    def _compare(self, user: str, most: Most, topics: int, partitions: int) -> None:
        own = [each for each in self._owned.values() if each.owner == user]
        whose, store, in_all = f"user {user!r}", "the store", ("limits.topics_max", "limits.partitions_max")
        counts = (
            (most.topics_of_user, len(own) + topics, topics, whose, "topics", TOPICS),
            (most.partitions_of_user, _sum(own) + partitions, partitions, whose, "partitions", PARTITIONS),
            (most.topics, len(self._owned) + topics, topics, store, "topics", in_all[0]),
            (most.partitions, _sum(self._owned.values()) + partitions, partitions, store, "partitions", in_all[1]),
        )
        for limit, count, more, holder, what, key in counts:
            if limit is not None and more and count > limit:
                raise LimitReached(holder, what, int(limit), key)

    def _look(self, *, is_whole: bool) -> bool:
        """Lists the topics, and reads the new ones, or all if `is_whole` is set. Returns False if it did nothing.

        All are read at most once in ALLOTMENT_LOOK_S, because that may take a while.
        """
        now_s = self._store.clock.steady_s()
        if is_whole and now_s < self._look_again_s:
            return False
        before = {} if is_whole else self._owned
        names = self._store.filesystem.names(paths.topics_directory(self._store.path))
        topics = {name: before.get(name) or self._read(name) for name in names}
        self._owned = {name: owned for name, owned in topics.items() if owned is not None}
        if is_whole:
            self._look_again_s = now_s + ALLOTMENT_LOOK_S
        return True

    def _read(self, name: str) -> Owned | None:
        path = paths.topic_file(paths.topic_directory(self._store.path, name))
        data = read_json(self._store.filesystem, path)
        if data is None:
            return None
        count = data.get("partitions")
        return Owned(str(data.get("owner", ANONYMOUS)), count if isinstance(count, int) else 1)


def _sum(topics: Iterable[Owned]) -> int:
    return sum(each.partitions for each in topics)
