"""A range of one partition's log, as a task reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from warren.errors import DataLost, NoSuchTopic, NumberRetired, TopicLost
from warren.spark.store_access.access import StoreAccess

LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The messages from `start` up to `end` of the topic with the id `topic_id`. A task reads all of them, or fails.

    Without `fail_on_data_loss` it skips messages that retention removed after the planning, and logs a warning.
    """

    access: StoreAccess
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    fail_on_data_loss: bool = True

    def __len__(self) -> int:
        return self.end - self.start

    def read(self, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        """Yields the messages that pass the filter, with columns of a scan. Raises TopicLost or DataLost."""
        catalog = self.access.catalog()
        try:
            is_replaced = catalog.topic_id(self.topic) != self.topic_id
        except NoSuchTopic:
            raise TopicLost(self.topic, is_replaced=False) from None
        if is_replaced:
            raise TopicLost(self.topic, is_replaced=True)
        start = self.start
        with closing(catalog.open_log(self.topic, self.partition)) as log:
            while start < self.end:
                try:
                    yield from log.scan(start, self.end, columns, tag)
                    return
                except NumberRetired as error:
                    if self.fail_on_data_loss:
                        raise DataLost(self.topic, self.partition, error.number, error.first, log.end) from error
                    LOGGER.warning("topic %s, partition %d: %s; going on there", self.topic, self.partition, error)
                    start = error.first
