"""What a store holds of each partition: its log, and before that what an archive has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.spark.log_range import LogRange
from warren.spark.offsets import OpenLogs, Place
from warren.spark.options import ReadOptions
from warren.spark.reach import Numbered, Topics
from warren.spark.splits import Piece

if TYPE_CHECKING:
    from warren.spark.archive.reading import Archive, ArchivedPartition


class Holdings:
    """Tells where the messages of a partition begin and end, and what to read for some of them. One thread."""

    def __init__(self, options: ReadOptions, topics: Topics) -> None:
        self._reach, self._topics = options.reach, topics
        self._directory, self._fail_on_data_loss = options.archive, options.fail_on_data_loss
        self.logs = OpenLogs(topics)
        self._archive: Archive | None = None

    def refresh(self) -> None:
        """Look at store and archive anew when they are needed next: files of an old manifest may be gone."""
        self._topics.refresh()
        self._archive = None

    def numbered(self, place: Place, topic_id: str) -> Numbered:
        """All messages of a partition, those of the archive with those of the log."""
        log = self.logs.log(place, topic_id)
        archived = self._archived(place, topic_id)
        return log if archived is None else archived.with_log(log)

    def pieces(self, place: Place, topic_id: str, start: int, end: int) -> list[Piece]:
        """What to read for the messages from `start` up to `end`."""
        archived = self._archived(place, topic_id)
        # Up to its end the archive is read, wherever the log begins: no message comes from both.
        pieces: list[Piece] = [] if archived is None else list(archived.pieces(start, end))
        start = start if archived is None else max(start, archived.end)
        return [*pieces, self.log_range(place, topic_id, start, end)] if start < end else pieces

    def log_range(self, place: Place, topic_id: str, start: int, end: int) -> LogRange:
        """The messages from `start` up to `end`, read from the log."""
        return LogRange(
            reach=self._reach,
            topic=place.topic,
            topic_id=topic_id,
            partition=place.partition,
            start=start,
            end=end,
            fail_on_data_loss=self._fail_on_data_loss,
        )

    def _archived(self, place: Place, topic_id: str) -> ArchivedPartition | None:
        if self._directory is None:
            return None
        if self._archive is None:
            # Imported here: few reads have an archive.
            from warren.spark.archive.reading import Archive

            self._archive = Archive(self._directory)
        return self._archive.partition(place.topic, topic_id, place.partition)

    def close(self) -> None:
        self.logs.close()
