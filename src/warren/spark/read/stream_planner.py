"""Plans the micro-batches of a stream on the driver: where each one ends, and what each task reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from warren.errors import GONE, DataLost, NoSuchTopic, TopicLost
from warren.spark.read.batch_limits import number_within, shares, size_between
from warren.spark.read.log_and_archive import LogAndArchive
from warren.spark.read.options import ReadOptions
from warren.spark.read.splits import ReadRange, ReadTask, planned, task_count
from warren.spark.read.start_and_end import start_number
from warren.spark.read.stream_offsets import StreamOffset
from warren.spark.runtime.machine import cores
from warren.spark.store_access.access import PartitionMessages, TopicPartition

LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one micro-batch; None for no limit."""

    rows_max: int | None = None
    size_max: int | None = None


class Backlog(NamedTuple):
    """The messages of a partition that have not been read: those from `start` up to `end`."""

    messages: PartitionMessages
    start: int
    end: int


class StreamPlanner:
    """The driver's side of one stream. It keeps logs open, and has no other state."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._catalog = options.access.catalog()
        self._log_and_archive = LogAndArchive(options, self._catalog)

    def close(self) -> None:
        self._log_and_archive.close()

    # --- How far a batch goes ---

    def ends(self) -> StreamOffset:
        """Returns the current ends of the chosen logs. Omits a log that is being deleted: the next batch reports it."""
        self._catalog.refresh()
        ids, numbers = self._ids(), {}
        for place in self._places(ids):
            with suppress(*GONE):
                numbers[place] = self._log_and_archive.logs.log(place, ids[place.topic]).end
        return StreamOffset(numbers=numbers, ids=ids)

    def next(self, start: StreamOffset | None, limits: BatchLimits, target: StreamOffset | None) -> StreamOffset:
        """Returns where the batch that begins at `start` (None: the first one) ends; `start` itself if nothing is new.

        With a `target` the stream goes no further than that. Raises TopicLost or DataLost unless data loss is allowed.
        """
        self._log_and_archive.refresh()
        ids = self._ids()
        begins = self._begins(start, ids, target)
        start_numbers = start.numbers if start is not None else {}
        positions = {place: start_numbers[place] for place in self._still_there(start, ids)}
        waiting = {
            place: self._backlog(place, number, ids, target)
            for place, number in sorted({**positions, **begins}.items())
        }
        numbers = _limited(waiting, limits)
        ids = {topic: ids[topic] for topic in ids if start is None or any(topic == place.topic for place in numbers)}
        if start is not None and numbers == start.numbers and ids == start.ids:
            return start
        return StreamOffset(numbers=numbers, ids=ids, begins=begins)

    def _ids(self) -> dict[str, str]:
        """Returns the ids of the chosen topics that exist."""
        ids = {}
        for topic in self._options.choice.topics(self._catalog):
            try:
                ids[topic] = self._catalog.topic_id(topic)
            except NoSuchTopic:
                continue
        return ids

    def _places(self, ids: Mapping[str, str]) -> Iterator[TopicPartition]:
        choice = self._options.choice
        for topic in ids:
            for partition in choice.partitions(self._catalog, topic):
                yield TopicPartition(topic, partition)

    def _messages_with(self, place: TopicPartition, topic_id: str, number: int) -> PartitionMessages:
        """Returns the messages that include `number`: the archive is opened only if the log no longer has it."""
        log = self._log_and_archive.logs.log(place, topic_id)
        return log if number >= log.first else self._log_and_archive.messages_of(place, topic_id)

    def _begins(
        self, start: StreamOffset | None, ids: Mapping[str, str], target: StreamOffset | None
    ) -> dict[TopicPartition, int]:
        """Returns the partitions that are new to the stream, and the numbers at which it begins them."""
        if start is None:
            missing = [topic for topic in self._options.choice.topics(self._catalog) if topic not in ids]
            if missing:
                raise NoSuchTopic(missing[0])
        begins = {}
        for place in self._places(ids):
            if start is None:
                begins[place] = self._start_number(place, ids)
            elif start.ids.get(place.topic) != ids[place.topic]:
                begins[place] = self._log_and_archive.messages_of(place, ids[place.topic]).first
            elif place not in start.numbers:
                # The partition was added to the topic after the stream began, so none of its messages have been read.
                begins[place] = 0
        if target is not None and start is not None:
            return {place: number for place, number in begins.items() if place in target.numbers}
        return begins

    def _start_number(self, place: TopicPartition, ids: Mapping[str, str]) -> int:
        options = self._options
        messages = self._log_and_archive.messages_of(place, ids[place.topic])
        return start_number(options.start, place, messages, fail_on_data_loss=options.fail_on_data_loss)

    def _still_there(self, start: StreamOffset | None, ids: Mapping[str, str]) -> list[TopicPartition]:
        """Returns the partitions that the stream still reads. Raises TopicLost unless data loss is allowed."""
        if start is None:
            return []
        for topic, topic_id in start.ids.items():
            self._check_topic(topic, topic_id)
        return [place for place in start.numbers if ids.get(place.topic) == start.ids.get(place.topic)]

    def _check_topic(self, topic: str, topic_id: str) -> bool:
        """Returns whether the topic exists with this id. If not, raises TopicLost unless data loss is allowed."""
        try:
            is_replaced = self._catalog.topic_id(topic) != topic_id
        except NoSuchTopic:
            is_replaced = None
        if is_replaced is False:
            return True
        lost = TopicLost(topic, is_replaced=bool(is_replaced))
        if self._options.fail_on_data_loss:
            raise lost
        LOGGER.warning("%s", lost)
        self._log_and_archive.logs.forget(topic)
        return False

    def _backlog(
        self, place: TopicPartition, number: int, ids: Mapping[str, str], target: StreamOffset | None
    ) -> Backlog:
        try:
            messages = self._messages_with(place, ids[place.topic], number)
            start, end = self._nearest(place, number, messages), messages.end
        except GONE:
            raise TopicLost(place.topic, is_replaced=False) from None
        if target is not None:
            end = min(end, target.numbers.get(place, start))
        return Backlog(messages, start, max(start, end))

    def _nearest(self, place: TopicPartition, number: int, messages: PartitionMessages) -> int:
        """Returns `number`, or the nearest number that exists. Then raises DataLost unless data loss is allowed."""
        first, end = messages.first, messages.end
        if first <= number <= end:
            return number
        lost = DataLost(*place, number, first, end)
        if self._options.fail_on_data_loss:
            raise lost
        nearest = min(max(number, first), end)
        LOGGER.warning("%s; the query continues from %d", lost, nearest)
        return nearest

    # --- What its tasks read ---

    def tasks(self, start: StreamOffset | None, end: StreamOffset) -> list[ReadTask]:
        """Returns the tasks of the batch from `start` to `end`. They read the same messages each time."""
        self._log_and_archive.refresh()
        numbers = start.numbers if start is not None else {}
        ranges: list[ReadRange] = []
        for topic, topic_id in end.ids.items():
            if self._check_topic(topic, topic_id):
                for place in sorted(place for place in end.numbers if place.topic == topic):
                    begin = end.begins.get(place, numbers.get(place, 0))
                    ranges += self._ranges(place, topic_id, begin, end.numbers[place])
        count = task_count(sum(map(len, ranges)), cores(), self._options.partitions_min)
        return planned(ranges, count, self._log_and_archive.logs.record_start)

    def _ranges(self, place: TopicPartition, topic_id: str, start: int, end: int) -> list[ReadRange]:
        if start >= end:
            return []
        messages = self._messages_with(place, topic_id, start)
        start, end = self._nearest(place, start, messages), self._nearest(place, end, messages)
        if start >= end:
            return []
        is_in_log = start >= self._log_and_archive.logs.log(place, topic_id).first
        whole = self._log_and_archive.log_range(place, topic_id, start, end)
        return [whole] if is_in_log else self._log_and_archive.ranges(place, topic_id, start, end)


def _limited(waiting: Mapping[TopicPartition, Backlog], limits: BatchLimits) -> dict[TopicPartition, int]:
    """Returns how far each partition is read."""
    ends = {place: backlog.end for place, backlog in waiting.items()}
    if limits.rows_max is not None:
        counts = shares({place: backlog.end - backlog.start for place, backlog in waiting.items()}, limits.rows_max)
        ends = {place: waiting[place].start + count for place, count in counts.items()}
    if limits.size_max is not None:
        ends = _within_size(waiting, ends, limits.size_max)
    return ends


def _within_size(
    waiting: Mapping[TopicPartition, Backlog], ends: Mapping[TopicPartition, int], size_max: int
) -> dict[TopicPartition, int]:
    sizes = {place: size_between(messages, start, ends[place]) for place, (messages, start, _) in waiting.items()}
    return {
        place: ends[place]
        if sizes[place] <= size
        else number_within(waiting[place].messages, waiting[place].start, ends[place], size)
        for place, size in shares(sizes, size_max).items()
    }
