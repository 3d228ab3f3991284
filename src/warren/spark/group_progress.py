"""How far a stream has come, shown as the position of a group, so that its lag is seen where all lags are."""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import GONE, WarrenError
from warren.queue import positions
from warren.queue.group_settings import open_settings
from warren.queue.store import Store
from warren.spark.offsets import Place
from warren.spark.stream_offsets import StreamOffset

LOGGER: Final = logging.getLogger(__name__)


class GroupProgress:
    """Stores positions of a stream group of each topic. Spark's checkpoint is what counts: a failure is a warning."""

    def __init__(self, path: str, group: str) -> None:
        self._group = group
        self._store = Store(path, keeps=False)
        self._shown: dict[Place, int] = {}

    def commit(self, offset: StreamOffset) -> None:
        """Everything below `offset` is done."""
        news = {place: number for place, number in offset.numbers.items() if self._shown.get(place) != number}
        for topic_name in sorted({place.topic for place in news}):
            numbers = {place.partition: number for place, number in news.items() if place.topic == topic_name}
            try:
                self._store_positions(topic_name, numbers)
            except (*GONE, WarrenError, OSError) as error:
                LOGGER.warning("group %s of topic %s does not show the stream: %s", self._group, topic_name, error)
        self._shown.update(news)

    def _store_positions(self, topic_name: str, numbers: dict[int, int]) -> None:
        topic = self._store.existing_topic(topic_name)
        topic.see_partitions()
        given = {"mode": "stream"}
        open_settings(topic.filesystem, topic.directory, self._group, given, self._store.lock)
        positions.begin(topic, self._group, "start")
        positions.store_positions(topic, self._group, numbers)

    def close(self) -> None:
        self._store.close()
