"""Where a query starts and ends in each partition. Turns bounds into numbers, by the logs as they are now."""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import DataLost
from warren.spark.read.bounds import EARLIEST, LATEST, Bound
from warren.spark.read.log_range import LogRange
from warren.spark.store_access.access import PartitionMessages, ReadableLog, TopicCatalog, TopicPartition
from warren.spark.store_access.files import EmptyLog

LOGGER: Final = logging.getLogger(__name__)


class OpenLogs:
    """The logs that the driver has open, each opened once. One thread. Logs of a deleted topic are closed."""

    def __init__(self, catalog: TopicCatalog) -> None:
        self._catalog = catalog
        self._logs: dict[tuple[TopicPartition, str], ReadableLog] = {}

    def log(self, place: TopicPartition, topic_id: str) -> ReadableLog:
        """Returns the log of a partition of the topic with this id."""
        opened = self._logs.get((place, topic_id))
        if opened is None or isinstance(opened, EmptyLog):
            self.forget(place.topic, but=topic_id)
            opened = self._logs[place, topic_id] = self._catalog.open_log(*place)
        return opened

    def record_start(self, part: LogRange, number: int) -> int:
        """Returns where to cut a range: at `number`, or before it at the start of the record that holds it."""
        return self.log(TopicPartition(part.topic, part.partition), part.topic_id).record_start(number)

    def forget(self, topic: str, *, but: str = "") -> None:
        """Closes the logs of a topic, except those of the topic with the id `but`."""
        for place, topic_id in [key for key in self._logs if key[0].topic == topic and key[1] != but]:
            self._logs.pop((place, topic_id)).close()

    def close(self) -> None:
        while self._logs:
            self._logs.popitem()[1].close()


def start_number(bound: Bound, place: TopicPartition, log: PartitionMessages, *, fail_on_data_loss: bool) -> int:
    """Returns where a query starts. Raises DataLost for a number outside the log, unless data loss is allowed."""
    number = bound.of(*place)
    if bound.is_time:
        return log.find_time(number)
    first, end = log.first, log.end
    if number in (EARLIEST, LATEST):
        return first if number == EARLIEST else end
    if first <= number <= end:
        return number
    if fail_on_data_loss:
        raise DataLost(*place, number, first, end)
    return min(max(number, first), end)


def end_number(bound: Bound, place: TopicPartition, log: PartitionMessages, *, fail_on_data_loss: bool) -> int:
    """Returns where a query ends. Raises DataLost for a number outside the log, unless data loss is allowed."""
    number = bound.of(*place)
    if bound.is_time:
        return log.find_time(number)
    if number == LATEST or (number > log.end and not fail_on_data_loss):
        return log.end
    if number > log.end:
        raise DataLost(*place, number - 1, log.first, log.end)
    return number
