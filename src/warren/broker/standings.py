"""How topics and groups stand: looked up by a thread, at most once in a while, whoever asks and how often."""

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

    `passed_over` is, by partition, how often readers here passed over a batch because nobody can read its records.
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
    """What was looked up last. For the event loop's thread alone; those who ask at once share one look."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._looking: asyncio.Future[Standing] | None = None
        self._looked_s = float("-inf")

    async def look(self) -> Standing:
        """How all stand, as of STANDINGS_LOOK_S ago at most."""
        now_s = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now_s >= self._looked_s + STANDINGS_LOOK_S):
            self._looked_s = now_s
            self._looking = asyncio.get_running_loop().create_future()
            self._broker.tasks.create_task(self._look(self._looking))
        # Who goes away does not take it from the others.
        return await asyncio.shield(self._looking)

    async def _look(self, looking: asyncio.Future[Standing]) -> None:
        try:
            looking.set_result(await self.look_now())
        except Exception as error:  # noqa: BLE001  # It is told to those who asked, and ends nobody else's work.
            looking.set_exception(error)

    async def look_now(self) -> Standing:
        """How all stand now: for those who have just changed something and want to see it."""
        return await self._broker.in_thread(standing_of, self._broker.store)


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
