"""Where a query starts and ends in each partition, as numbers, told by the logs as they are now."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from warren.errors import DataLost
from warren.spark.bounds import EARLIEST, LATEST, Bound
from warren.spark.file_reach import NoLog
from warren.spark.log_range import LogRange
from warren.spark.reach import HeldLog, Numbered, Topics

LOGGER: Final = logging.getLogger(__name__)


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class OpenLogs:
    """The logs of a store that a driver looks at, each opened once. One thread; a log whose topic is gone is let go."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._logs: dict[tuple[Place, str], HeldLog] = {}

    def log(self, place: Place, topic_id: str) -> HeldLog:
        """The log of a partition of the topic that has this id now."""
        known = self._logs.get((place, topic_id))
        if known is None or isinstance(known, NoLog):
            self.forget(place.topic, but=topic_id)
            known = self._logs[place, topic_id] = self._topics.held(*place)
        return known

    def record_start(self, part: LogRange, number: int) -> int:
        """Where to cut a range, at `number` or before: where a record starts that would have to be read twice."""
        return self.log(Place(part.topic, part.partition), part.topic_id).record_start(number)

    def forget(self, topic: str, *, but: str = "") -> None:
        """Close the logs of a topic of another id than `but`."""
        for place, topic_id in [key for key in self._logs if key[0].topic == topic and key[1] != but]:
            self._logs.pop((place, topic_id)).close()

    def close(self) -> None:
        while self._logs:
            self._logs.popitem()[1].close()


def start_number(bound: Bound, place: Place, log: Numbered, *, fail_on_data_loss: bool) -> int:
    """Where a query starts. DataLost for a number that is not there, unless that may be."""
    told = bound.of(*place)
    if bound.is_time:
        return log.find_time(told)
    first, end = log.first, log.end
    if told in (EARLIEST, LATEST):
        return first if told == EARLIEST else end
    if first <= told <= end:
        return told
    if fail_on_data_loss:
        raise DataLost(*place, told, first, end)
    return min(max(told, first), end)


def end_number(bound: Bound, place: Place, log: Numbered, *, fail_on_data_loss: bool) -> int:
    """Where a query ends. DataLost for a number that is not there, unless that may be."""
    told = bound.of(*place)
    if bound.is_time:
        return log.find_time(told)
    if told == LATEST or (told > log.end and not fail_on_data_loss):
        return log.end
    if told > log.end:
        raise DataLost(*place, told - 1, log.first, log.end)
    return told
