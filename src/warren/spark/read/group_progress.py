"""Shows the progress of a stream as the position of a group, so that its lag is shown like that of any group."""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import GONE, WarrenError
from warren.spark.read.stream_offsets import StreamOffset
from warren.spark.store_access.access import StoreAccess, TopicPartition

LOGGER: Final = logging.getLogger(__name__)


class GroupProgress:
    """Stores positions of a stream group of each topic.

    Failures are only logged, because Spark relies on its checkpoint.
    """

    def __init__(self, access: StoreAccess, group: str) -> None:
        self._group = group
        self._positions = access.positions(group)
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, offset: StreamOffset) -> None:
        """Stores that all messages below `offset` were processed."""
        news = {place: number for place, number in offset.numbers.items() if self._committed.get(place) != number}
        for topic_name in sorted({place.topic for place in news}):
            numbers = {place.partition: number for place, number in news.items() if place.topic == topic_name}
            try:
                self._positions.store(topic_name, numbers)
            except (*GONE, WarrenError, OSError) as error:
                LOGGER.warning("group %s of topic %s does not follow the stream: %s", self._group, topic_name, error)
        self._committed.update(news)

    def close(self) -> None:
        self._positions.close()
