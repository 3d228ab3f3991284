"""What the next micro-batch of a stream holds, and what of it each task reads: decided on the driver, from the logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from warren.errors import GONE, DataLost, NoSuchTopic, TopicLost
from warren.spark.admission import number_within, shares, size_between
from warren.spark.holdings import Holdings
from warren.spark.machine import cores
from warren.spark.offsets import Place, start_number
from warren.spark.options import ReadOptions
from warren.spark.reach import HeldLog, Numbered
from warren.spark.splits import Piece, Task, planned, task_count
from warren.spark.stream_offsets import StreamOffset

LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one micro-batch may hold; None for no limit."""

    rows_max: int | None = None
    size_max: int | None = None


class Backlog(NamedTuple):
    """What waits in a partition: what it holds, and the numbers from `start` up to `end`."""

    held: Numbered
    start: int
    end: int


class StreamPlanner:
    """The driver's side of one stream. Keeps the logs open; what it answers depends on them and its arguments alone."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._topics = options.reach.topics()
        self._holdings = Holdings(options, self._topics)

    def close(self) -> None:
        self._holdings.close()

    # --- How far a batch goes ---

    def ends(self) -> StreamOffset:
        """Where the chosen logs end now. One that goes at this moment is left out: the next batch tells."""
        self._topics.refresh()
        ids, numbers = self._ids(), {}
        for place in self._places(ids):
            with suppress(*GONE):
                numbers[place] = self._log(place, ids).end
        return StreamOffset(numbers=numbers, ids=ids)

    def next(self, start: StreamOffset | None, limits: Limits, target: StreamOffset | None) -> StreamOffset:
        """Where the batch ends that begins at `start`, None for the first one; `start` itself where nothing is new.

        With a `target` the stream goes no further than that.
        """
        self._holdings.refresh()
        ids = self._ids()
        begins = self._begins(start, ids, target)
        known = start.numbers if start is not None else {}
        kept = {place: known[place] for place in self._still_there(start, ids)}
        waiting = {
            place: self._backlog(place, number, ids, target) for place, number in sorted({**kept, **begins}.items())
        }
        numbers = _limited(waiting, limits)
        ids = {topic: ids[topic] for topic in ids if start is None or any(topic == place.topic for place in numbers)}
        if start is not None and numbers == start.numbers and ids == start.ids:
            return start
        return StreamOffset(numbers=numbers, ids=ids, begins=begins)

    def _ids(self) -> dict[str, str]:
        """The ids of the chosen topics. One that is named and not there has none."""
        ids = {}
        for topic in self._options.choice.topics(self._topics):
            try:
                ids[topic] = self._topics.topic_id(topic)
            except NoSuchTopic:
                continue
        return ids

    def _places(self, ids: Mapping[str, str]) -> Iterator[Place]:
        choice = self._options.choice
        for topic in ids:
            for partition in choice.partitions(self._topics, topic):
                yield Place(topic, partition)

    def _log(self, place: Place, ids: Mapping[str, str]) -> HeldLog:
        return self._holdings.logs.log(place, ids[place.topic])

    def _held(self, place: Place, topic_id: str, number: int) -> Numbered:
        """What holds message `number`: the archive is asked only for what the log has no more."""
        log = self._holdings.logs.log(place, topic_id)
        return log if number >= log.first else self._holdings.numbered(place, topic_id)

    def _begins(
        self, start: StreamOffset | None, ids: Mapping[str, str], target: StreamOffset | None
    ) -> dict[Place, int]:
        """The partitions that the stream has not begun yet, and where it begins them."""
        if start is None:
            missing = [topic for topic in self._options.choice.topics(self._topics) if topic not in ids]
            if missing:
                raise NoSuchTopic(missing[0])
        begins = {}
        for place in self._places(ids):
            if start is None:
                begins[place] = self._start_number(place, ids)
            elif start.ids.get(place.topic) != ids[place.topic]:
                begins[place] = self._holdings.numbered(place, ids[place.topic]).first
            elif place not in start.numbers:
                # A partition that was added: nothing of it has been read.
                begins[place] = 0
        if target is not None and start is not None:
            return {place: number for place, number in begins.items() if place in target.numbers}
        return begins

    def _start_number(self, place: Place, ids: Mapping[str, str]) -> int:
        options = self._options
        held = self._holdings.numbered(place, ids[place.topic])
        return start_number(options.start, place, held, fail_on_data_loss=options.fail_on_data_loss)

    def _still_there(self, start: StreamOffset | None, ids: Mapping[str, str]) -> list[Place]:
        """The partitions that the stream has begun and still reads. TopicLost where one is gone, unless that may be."""
        if start is None:
            return []
        for topic, topic_id in start.ids.items():
            self._check_topic(topic, topic_id)
        return [place for place in start.numbers if ids.get(place.topic) == start.ids.get(place.topic)]

    def _check_topic(self, topic: str, topic_id: str) -> bool:
        """Whether the topic is there and is the same; TopicLost where it is not, unless that may be."""
        try:
            is_replaced = self._topics.topic_id(topic) != topic_id
        except NoSuchTopic:
            is_replaced = None
        if is_replaced is False:
            return True
        lost = TopicLost(topic, is_replaced=bool(is_replaced))
        if self._options.fail_on_data_loss:
            raise lost
        LOGGER.warning("%s", lost)
        self._holdings.logs.forget(topic)
        return False

    def _backlog(self, place: Place, number: int, ids: Mapping[str, str], target: StreamOffset | None) -> Backlog:
        try:
            held = self._held(place, ids[place.topic], number)
            start, end = self._there(place, number, held), held.end
        except GONE:
            raise TopicLost(place.topic, is_replaced=False) from None
        if target is not None:
            end = min(end, target.numbers.get(place, start))
        return Backlog(held, start, max(start, end))

    def _there(self, place: Place, number: int, held: Numbered) -> int:
        """`number`, or the nearest that is there; DataLost where it is not, unless that may be."""
        first, end = held.first, held.end
        if first <= number <= end:
            return number
        lost = DataLost(*place, number, first, end)
        if self._options.fail_on_data_loss:
            raise lost
        nearest = min(max(number, first), end)
        LOGGER.warning("%s; the query goes on from %d", lost, nearest)
        return nearest

    # --- What its tasks read ---

    def tasks(self, start: StreamOffset | None, end: StreamOffset) -> list[Task]:
        """The tasks of the batch from `start` to `end`: the same messages whenever it is asked."""
        self._holdings.refresh()
        known = start.numbers if start is not None else {}
        pieces: list[Piece] = []
        for topic, topic_id in end.ids.items():
            if self._check_topic(topic, topic_id):
                for place in sorted(place for place in end.numbers if place.topic == topic):
                    begin = end.begins.get(place, known.get(place, 0))
                    pieces += self._pieces(place, topic_id, begin, end.numbers[place])
        count = task_count(sum(map(len, pieces)), cores(), self._options.partitions_min)
        return planned(pieces, count, self._holdings.logs.record_start)

    def _pieces(self, place: Place, topic_id: str, start: int, end: int) -> list[Piece]:
        if start >= end:
            return []
        held = self._held(place, topic_id, start)
        start, end = self._there(place, start, held), self._there(place, end, held)
        if start >= end:
            return []
        is_in_log = start >= self._holdings.logs.log(place, topic_id).first
        whole = self._holdings.log_range(place, topic_id, start, end)
        return [whole] if is_in_log else self._holdings.pieces(place, topic_id, start, end)


def _limited(waiting: Mapping[Place, Backlog], limits: Limits) -> dict[Place, int]:
    """How far each partition is read."""
    ends = {place: backlog.end for place, backlog in waiting.items()}
    if limits.rows_max is not None:
        taken = shares({place: backlog.end - backlog.start for place, backlog in waiting.items()}, limits.rows_max)
        ends = {place: waiting[place].start + count for place, count in taken.items()}
    if limits.size_max is not None:
        ends = _within_size(waiting, ends, limits.size_max)
    return ends


def _within_size(waiting: Mapping[Place, Backlog], ends: Mapping[Place, int], size_max: int) -> dict[Place, int]:
    sizes = {place: size_between(held, start, ends[place]) for place, (held, start, _) in waiting.items()}
    return {
        place: ends[place]
        if sizes[place] <= size
        else number_within(waiting[place].held, waiting[place].start, ends[place], size)
        for place, size in shares(sizes, size_max).items()
    }
