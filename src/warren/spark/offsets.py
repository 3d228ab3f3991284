"""Where a query starts and ends in each partition, as numbers, told by the logs as they are now."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple, Protocol

from warren.errors import DataLost, NotALog
from warren.spark.bounds import EARLIEST, LATEST, Bound
from warren.spark.catalog import Catalog
from warren.spark.log_range import LogRange
from warren.storage import Log

LOGGER: Final = logging.getLogger(__name__)


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Numbered(Protocol):
    """What has messages from `first` up to `end`, and finds them by time: a log, or an archive and a log as one."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    def find_time(self, when: int) -> int: ...


class NoLog:
    """The log of a partition to which nobody has put anything yet: it has no files."""

    first = end = 0

    def find_time(self, when: int) -> int:
        """Nothing is at or after any time."""
        return 0

    def close(self) -> None:
        """There is nothing to close."""


class OpenLogs:
    """The logs of a store that a driver looks at, each opened once. One thread; a log whose topic is gone is let go."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._logs: dict[tuple[Place, str], Log | NoLog] = {}

    def log(self, place: Place, topic_id: str) -> Log | NoLog:
        """The log of a partition of the topic that has this id now."""
        known = self._logs.get((place, topic_id))
        if known is None or isinstance(known, NoLog):
            self.forget(place.topic, but=topic_id)
            known = self._logs[place, topic_id] = self._opened(place)
        return known

    def _opened(self, place: Place) -> Log | NoLog:
        try:
            return self._catalog.log(*place)
        except NotALog:
            return NoLog()

    def record_start(self, part: LogRange, number: int) -> int:
        """The number of the first message of the record that holds `number`."""
        log = self.log(Place(part.topic, part.partition), part.topic_id)
        if isinstance(log, NoLog):
            return number
        _, block, position = log.standing(number)
        return log.number_at(block, position)

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
