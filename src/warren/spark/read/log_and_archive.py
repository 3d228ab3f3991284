"""The messages of each partition: those of its log, preceded by those of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.spark.read.log_range import LogRange
from warren.spark.read.options import ReadOptions
from warren.spark.read.splits import ReadRange
from warren.spark.read.start_and_end import OpenLogs
from warren.spark.store_access.access import PartitionMessages, TopicCatalog, TopicPartition

if TYPE_CHECKING:
    from warren.spark.archive.table import Archive, ArchivedPartition


class LogAndArchive:
    """Finds where the messages of a partition begin and end, and the ranges that tasks read. One thread."""

    def __init__(self, options: ReadOptions, catalog: TopicCatalog) -> None:
        self._access, self._catalog = options.access, catalog
        self._directory, self._fail_on_data_loss = options.archive, options.fail_on_data_loss
        self.logs = OpenLogs(catalog)
        self._archive: Archive | None = None

    def refresh(self) -> None:
        """Discards what was read of the store and the archive, because files of an old manifest may no longer exist."""
        self._catalog.refresh()
        self._archive = None

    def messages_of(self, place: TopicPartition, topic_id: str) -> PartitionMessages:
        """Returns all messages of a partition: those of the archive and those of the log."""
        log = self.logs.log(place, topic_id)
        archived = self._archived(place, topic_id)
        return log if archived is None else archived.with_log(log)

    def ranges(self, place: TopicPartition, topic_id: str, start: int, end: int) -> list[ReadRange]:
        """Returns the ranges that hold the messages from `start` up to `end`."""
        archived = self._archived(place, topic_id)
        # The archive is read up to its end, even if the log has some of the same messages, so that no message is read
        # twice.
        ranges: list[ReadRange] = [] if archived is None else list(archived.ranges(start, end))
        start = start if archived is None else max(start, archived.end)
        return [*ranges, self.log_range(place, topic_id, start, end)] if start < end else ranges

    def log_range(self, place: TopicPartition, topic_id: str, start: int, end: int) -> LogRange:
        """Returns the messages from `start` up to `end` as a range that is read from the log."""
        return LogRange(
            access=self._access,
            topic=place.topic,
            topic_id=topic_id,
            partition=place.partition,
            start=start,
            end=end,
            fail_on_data_loss=self._fail_on_data_loss,
        )

    def _archived(self, place: TopicPartition, topic_id: str) -> ArchivedPartition | None:
        if self._directory is None:
            return None
        if self._archive is None:
            # Imported here because few reads have an archive.
            from warren.spark.archive.table import Archive

            self._archive = Archive(self._directory)
        return self._archive.partition(place.topic, topic_id, place.partition)

    def close(self) -> None:
        self.logs.close()
