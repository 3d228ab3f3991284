"""Finds the topics that requests name, by name or by id."""

from __future__ import annotations

import uuid
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.errors import GONE, NoSuchTopic, WarrenError
from warren.queue.state import paths
from warren.queue.state.json_file import read_json
from warren.queue.topic import Topic
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.security.asker import Asker

NO_ID: Final = bytes(16)
CACHED_S: Final = 0.25
"""How long a topic is cached, unless its logs say that it was deleted."""
LOGS_LOOK_S: Final = 0.001
"""How often the logs of a cached topic are checked for a deletion."""
SWEPT_FROM: Final = 64
"""When this many topics are cached, outdated entries are removed."""
NAMES_SWEPT_FROM: Final = 10_000
"""When this many names are known by id, those of topics that this process no longer has open are forgotten."""
LOOK_S: Final = 1.0
"""All topics are searched for an unknown id at most this often, for all requests together."""
LOOK_SLICE_S: Final = 0.01
"""How long such a search runs at a time. The next request for an unknown id continues it."""


class NotOpenYet(Exception):
    """The topic exists, and this process has not opened it. A thread has to, because that may take long."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(slots=True)
class CachedTopic:
    """A cached topic: until when it is valid, and when its logs are checked next for a deletion."""

    topic: Topic
    until_s: float
    look_s: float


class Topics:
    """Finds topics, also those that other processes made or deleted. For one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._now_s, self._opened = store, store.clock.steady_s, store.opened_topic
        # Weak references, so that a topic that was deleted is not kept in memory.
        self._ids: dict[str, tuple[weakref.ref[Topic], bytes]] = {}
        self._names: dict[bytes, str] = {}
        self._cache: dict[str, CachedTopic] = {}
        self._ids_swept_at = self._cache_swept_at = SWEPT_FROM
        self._names_swept_at = NAMES_SWEPT_FROM
        self._look_again_s = 0.0
        self._unseen: list[str] = []

    def names(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        return self._store.topics()

    def find(self, name: str) -> Topic:
        """Returns the topic `name`. Raises NoSuchTopic if there is none."""
        topic = self._store.existing_topic(name)
        topic.see_partitions()
        return topic

    def recall(self, name: str) -> Topic:
        """Returns the topic `name` as `find` does, but without a disk access if it was found a moment ago.

        For requests that come all the time. Partitions that another process added since then are not seen. Raises
        NotOpenYet instead of opening the topic.
        """
        cached, now_s = self._cache.get(name), self._now_s()
        if cached is None or now_s >= cached.until_s or self._opened(name) is not cached.topic:
            return self._remembered(name)
        if now_s >= cached.look_s:
            try:
                # A deletion, by any process, marks the logs, so that every process that has them open sees it.
                _ = cached.topic.logs[0].end
            except GONE:
                return self._remembered(name)
            cached.look_s = now_s + LOGS_LOOK_S
        return cached.topic

    def _remembered(self, name: str) -> Topic:
        self._cache.pop(name, None)
        if self._opened(name) is None and self._store.has_topic(name):
            raise NotOpenYet(name)
        topic, now_s = self.find(name), self._now_s()
        if len(self._cache) >= self._cache_swept_at:
            # Deleted topics must not stay in memory, even if many are created in a moment. The others are found again.
            self._cache = {
                each: cached
                for each, cached in self._cache.items()
                if cached.until_s > now_s and self._opened(each) is cached.topic
            }
            self._cache_swept_at = max(SWEPT_FROM, 2 * len(self._cache))
        self._cache[name] = CachedTopic(topic, now_s + CACHED_S, now_s + LOGS_LOOK_S)
        return topic

    def recall_by_id(self, topic_id: bytes) -> Topic:
        """Returns the topic with this id, from the cache as `recall` does. Raises NoSuchTopic if there is none."""
        name = self._names.get(topic_id)
        topic = None if name is None else self.recall(name)
        return topic if topic is not None and self.id_of(topic) == topic_id else self.find_by_id(topic_id)

    def id_of(self, topic: Topic) -> bytes:
        """Returns the id of a topic, 16 bytes. A topic that is deleted and created again has another id."""
        entry = self._ids.get(topic.name)
        if entry is None or entry[0]() is not topic:
            data = read_json(self._store.filesystem, paths.topic_file(topic.directory))
            if data is None:
                raise NoSuchTopic(topic.name)
            self._sweep_ids()
            # A plain string, because `topic.name` is an object that refers to the topic.
            name = str(topic.name)
            entry = self._ids[name] = weakref.ref(topic), uuid.UUID(str(data["id"])).bytes
            self._names[entry[1]] = name
        return entry[1]

    def _sweep_ids(self) -> None:
        """Forgets the ids of topics that this process no longer has open, if there are many. They can be read again.

        Their names are kept longer, so that a request with the id of a deleted topic is answered without a search.
        """
        if len(self._ids) >= self._ids_swept_at:
            self._ids = {name: entry for name, entry in self._ids.items() if entry[0]() is not None}
            self._ids_swept_at = max(SWEPT_FROM, 2 * len(self._ids))
        if len(self._names) >= self._names_swept_at:
            self._names = {id: name for name, (_, id) in self._ids.items()}
            self._names_swept_at = max(NAMES_SWEPT_FROM, 2 * len(self._names))

    def find_by_id(self, topic_id: bytes) -> Topic:
        """Returns the topic with this id. Raises NoSuchTopic if there is none, or it was deleted."""
        name = self._names.get(topic_id)
        if name is None and self._now_s() >= self._look_again_s:
            self._look_through()
            name = self._names.get(topic_id)
        topic = None if name is None else self.find(name)
        if topic is None or self.id_of(topic) != topic_id:
            raise NoSuchTopic(topic_id.hex())
        return topic

    def _look_through(self) -> None:
        """Reads the ids of all topics, because other processes may have made some that no request has named yet."""
        if not self._unseen:
            self._unseen = [name for name in self.names() if name not in self._ids]
        until_s = self._now_s() + LOOK_SLICE_S
        while self._unseen and self._now_s() < until_s:
            self._learn(self._unseen.pop())
        if not self._unseen:
            self._look_again_s = self._now_s() + LOOK_S

    def _learn(self, name: str) -> None:
        """Reads the id of a topic from its file, because opening the topic would take much longer."""
        with suppress(WarrenError, KeyError, ValueError):
            data = read_json(self._store.filesystem, paths.topic_file(paths.topic_directory(self._store.path, name)))
            if data is not None:
                self._names[uuid.UUID(str(data["id"])).bytes] = name


async def found_or_made(asker: Asker, name: str) -> Topic:
    """Returns the topic that a put names. Creates it if it does not exist and `auto_create_topics` is set.

    Raises NoSuchTopic if it is not created, and NoRight if the user may not create it.
    """
    broker = asker.broker
    try:
        return await broker.opened_topic(name)
    except NoSuchTopic:
        if not broker.settings.auto_create_topics:
            raise
    asker.check_creates(name)
    return await broker.allotment.make(asker, name, is_strict=False)
