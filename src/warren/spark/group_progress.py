"""How far a stream has come, shown as the position of a group, so that its lag is seen where all lags are."""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import GONE, WarrenError
from warren.spark.offsets import Place
from warren.spark.reach import Reach
from warren.spark.stream_offsets import StreamOffset

LOGGER: Final = logging.getLogger(__name__)


class GroupProgress:
    """Stores positions of a stream group of each topic. Spark's checkpoint is what counts: a failure is a warning."""

    def __init__(self, reach: Reach, group: str) -> None:
        self._group = group
        self._positions = reach.positions(group)
        self._shown: dict[Place, int] = {}

    def commit(self, offset: StreamOffset) -> None:
        """Everything below `offset` is done."""
        news = {place: number for place, number in offset.numbers.items() if self._shown.get(place) != number}
        for topic_name in sorted({place.topic for place in news}):
            numbers = {place.partition: number for place, number in news.items() if place.topic == topic_name}
            try:
                self._positions.store(topic_name, numbers)
            except (*GONE, WarrenError, OSError) as error:
                LOGGER.warning("group %s of topic %s does not show the stream: %s", self._group, topic_name, error)
        self._shown.update(news)

    def close(self) -> None:
        self._positions.close()
