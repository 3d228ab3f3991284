"""How topics and groups stand: looked up by a thread, one look at a time, which all who ask meanwhile share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from warren.broker.hidden_paths import without_paths
from warren.config import STANDINGS_LOOK_S
from warren.errors import GONE, NoSuchGroup, NoSuchTopic, WarrenError
from warren.queue.description import PartitionDescription
from warren.queue.group_description import GroupDescription

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.transaction.store import Store


class TopicStanding(NamedTuple):
    """One topic. `damage` says what is wrong with one of which nothing else is known.

    `passed_over` is, by partition, how often readers here passed over a batch because its records cannot be read.
    """

    topic: str
    partitions: Sequence[PartitionDescription] = ()
    parked: int = 0
    damage: str | None = None
    passed_over: Sequence[int] = ()

    @property
    def messages(self) -> int:
        return sum(part.end - part.first for part in self.partitions)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(part.bytes for part in self.partitions)


class Standing(NamedTuple):
    """All topics and all groups, by name."""

    topics: Sequence[TopicStanding]
    groups: Sequence[GroupDescription]


class Standings:
    """Looks up how all stand. For the event loop's thread alone.

    Invariant: one look is under way at a time. Requests that come meanwhile share the next one, which sees whatever was
    done before they came.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[Standing] | None = None
        self._latest: Standing | None = None
        self._looked_s = float("-inf")

    async def look(self) -> Standing:
        """How all stand, as of STANDINGS_LOOK_S ago at most."""
        if self._latest is not None and asyncio.get_running_loop().time() < self._looked_s + STANDINGS_LOOK_S:
            return self._latest
        return await self.look_now()

    async def look_now(self) -> Standing:
        """How all stand, looked up after this was called: for clients that have just changed something."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._broker.tasks.create_task(self._look(self._next))
        # A client that goes away does not end the look of the others.
        return await asyncio.shield(self._next)

    async def _look(self, looking: asyncio.Future[Standing]) -> None:
        async with self._lock:
            # Callers that ask from here on may need a later one.
            self._next = None
            begun_s = asyncio.get_running_loop().time()
            try:
                self._latest = await self._broker.in_thread(standing_of, self._broker.store)
            except Exception as error:  # noqa: BLE001  # The callers get it; other work goes on.
                looking.set_exception(error)
                return
            self._looked_s = begun_s
            looking.set_result(self._latest)


def standing_of(store: Store) -> Standing:
    """How all topics and groups stand now. What is damaged, or goes away meanwhile, keeps nothing from being seen."""
    topics: list[TopicStanding] = []
    groups: list[GroupDescription] = []
    for name in store.topics():
        try:
            topic = store.existing_topic(name)
            found = topic.describe()
            passed_over = [log.inspect().passed_over for log in topic.logs]
            topics.append(TopicStanding(name, found.partitions, topic.delay.count(), passed_over=passed_over))
        except (NoSuchTopic, *GONE):
            continue
        except (WarrenError, OSError) as error:
            topics.append(TopicStanding(name, damage=without_paths(store.path, str(error))))
            continue
        for group in found.groups:
            try:
                groups.append(topic.describe_group(group))
            except (NoSuchGroup, NoSuchTopic, *GONE):
                continue
            except (WarrenError, OSError) as error:
                topics[-1] = topics[-1]._replace(damage=without_paths(store.path, f"group {group}: {error}"))
    return Standing(topics, groups)
