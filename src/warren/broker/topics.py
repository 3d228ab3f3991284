"""The topics of the store as the broker's requests name them: by name, or by id."""

from __future__ import annotations

import uuid
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.errors import GONE, NoSuchTopic, WarrenError
from warren.queue import store_paths
from warren.queue.json_file import read_json
from warren.queue.topic import Topic
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.security.asker import Asker

NO_ID: Final = bytes(16)
FOUND_S: Final = 0.25
"""For how long a topic that was found is taken to be there, unless its logs say otherwise."""
LOGS_LOOK_S: Final = 0.001
"""How often they are asked."""
SWEPT_FROM: Final = 64
"""Of so many topics that are remembered it is looked for those that need not be."""
NAMES_SWEPT_FROM: Final = 10_000
"""Of so many names that stand for ids it is looked for those of topics that nobody has open."""
LOOK_S: Final = 1.0
"""How often all topics are looked through for an id that nobody knows, whoever asks and how often."""
LOOK_SLICE_S: Final = 0.01
"""How long a look takes at most; the next request for an unknown id goes on with it."""


@dataclass(slots=True)
class Found:
    """A topic that was found, until when it is taken to be there, and when its logs are asked whether it is."""

    topic: Topic
    until_s: float
    look_s: float


class Topics:
    """Finds topics, whichever process made or deleted them. For one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._now_s, self._opened = store, store.clock.steady_s, store.opened_topic
        # Weakly: those that were deleted are held by nobody else.
        self._ids: dict[str, tuple[weakref.ref[Topic], bytes]] = {}
        self._names: dict[bytes, str] = {}
        self._found: dict[str, Found] = {}
        self._ids_swept_at = self._found_swept_at = SWEPT_FROM
        self._names_swept_at = NAMES_SWEPT_FROM
        self._look_again_s = 0.0
        self._unseen: list[str] = []

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._store.topics()

    def find(self, name: str) -> Topic:
        """The topic `name`; NoSuchTopic where there is none."""
        topic = self._store.existing_topic(name)
        topic.see_partitions()
        return topic

    def recall(self, name: str) -> Topic:
        """The same, without a look at the disk where it was found a moment ago: for what is asked for all the time.

        Partitions that another process added since then are not seen; `find` sees them.
        """
        found, now_s = self._found.get(name), self._now_s()
        if found is None or now_s >= found.until_s or self._opened(name) is not found.topic:
            return self._remembered(name)
        if now_s >= found.look_s:
            try:
                # Whoever deletes a topic says so in its logs, for all who have them open.
                _ = found.topic.logs[0].end
            except GONE:
                return self._remembered(name)
            found.look_s = now_s + LOGS_LOOK_S
        return found.topic

    def _remembered(self, name: str) -> Topic:
        self._found.pop(name, None)
        topic, now_s = self.find(name), self._now_s()
        if len(self._found) >= self._found_swept_at:
            # Topics that are deleted must not be held, however many are made in a moment; the others are found again.
            self._found = {
                each: found
                for each, found in self._found.items()
                if found.until_s > now_s and self._opened(each) is found.topic
            }
            self._found_swept_at = max(SWEPT_FROM, 2 * len(self._found))
        self._found[name] = Found(topic, now_s + FOUND_S, now_s + LOGS_LOOK_S)
        return topic

    def recall_by_id(self, topic_id: bytes) -> Topic:
        """`find_by_id`, as `recall` is to `find`."""
        name = self._names.get(topic_id)
        topic = None if name is None else self.recall(name)
        return topic if topic is not None and self.id_of(topic) == topic_id else self.find_by_id(topic_id)

    def id_of(self, topic: Topic) -> bytes:
        """The id of a topic, 16 bytes, never that of another topic of its name."""
        known = self._ids.get(topic.name)
        if known is None or known[0]() is not topic:
            data = read_json(self._store.filesystem, store_paths.topic_file(topic.directory))
            if data is None:
                raise NoSuchTopic(topic.name)
            self._sweep_ids()
            # A plain one: the name that a topic has of itself leads back to the topic.
            name = str(topic.name)
            known = self._ids[name] = weakref.ref(topic), uuid.UUID(str(data["id"])).bytes
            self._names[known[1]] = name
        return known[1]

    def _sweep_ids(self) -> None:
        """Where there are many, forget those of topics that nobody has open any more: they are read again.

        Their names last longer: whoever asks for the id of a topic that was deleted is told so at once.
        """
        if len(self._ids) >= self._ids_swept_at:
            self._ids = {name: known for name, known in self._ids.items() if known[0]() is not None}
            self._ids_swept_at = max(SWEPT_FROM, 2 * len(self._ids))
        if len(self._names) >= self._names_swept_at:
            self._names = {id: name for name, (_, id) in self._ids.items()}
            self._names_swept_at = max(NAMES_SWEPT_FROM, 2 * len(self._names))

    def find_by_id(self, topic_id: bytes) -> Topic:
        """The topic with this id; NoSuchTopic where there is none any more."""
        name = self._names.get(topic_id)
        if name is None and self._now_s() >= self._look_again_s:
            self._look_through()
            name = self._names.get(topic_id)
        topic = None if name is None else self.find(name)
        if topic is None or self.id_of(topic) != topic_id:
            raise NoSuchTopic(topic_id.hex())
        return topic

    def _look_through(self) -> None:
        """Learn the ids of all topics: of those that other processes made nobody may have asked before."""
        if not self._unseen:
            self._unseen = [name for name in self.names() if name not in self._ids]
        until_s = self._now_s() + LOOK_SLICE_S
        while self._unseen and self._now_s() < until_s:
            with suppress(WarrenError):
                self.id_of(self.find(self._unseen.pop()))
        if not self._unseen:
            self._look_again_s = self._now_s() + LOOK_S


async def found_or_made(asker: Asker, name: str) -> Topic:
    """The topic that a put names. Makes it if there is none and `auto_create_topics` says so.

    Raises NoSuchTopic if it is not made, and NoRight if the user may not make it.
    """
    broker = asker.broker
    try:
        return await broker.opened_topic(name)
    except NoSuchTopic:
        if not broker.settings.auto_create_topics:
            raise
    asker.check_creates(name)
    return await broker.allotment.make(asker, name, is_strict=False)
