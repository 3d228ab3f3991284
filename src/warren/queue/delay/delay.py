"""Delay: the delayed messages of a topic, parked in one log for each horizon until they are due."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import Final, Protocol

from warren.api.values import MessageFields
from warren.clock import Duration, microseconds, seconds_of
from warren.errors import GONE, BadInput, NoSuchTopic
from warren.limits import DELAY_S_MAX
from warren.message import NO_CORR_OFFSET
from warren.queue.delay.handles import (
    CORR_OFFSET_HEADER,
    HORIZONS,
    PARTITION_HEADER,
    RESERVED,
    Delayed,
    Scheduled,
    handle_id,
    parse_handle_id,
    scheduled_entry,
)
from warren.queue.delay.intent import IntentFile
from warren.queue.delay.parked_log import Parking
from warren.queue.state import paths
from warren.queue.state.json_file import read_json
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.topic_view import TopicView
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.record import check_corr_offset

HORIZON_ENDS_US: Final = (60_000_000, 3_600_000_000, 86_400_000_000, 30 * 86_400_000_000)
RING_US: Final = 500_000
"""If a message is due within this time, the caller that parks it wakes the mover.

Otherwise the mover checks often enough by itself.
"""
PAGE_ROWS: Final = 500
NO_FIELDS: Final = MessageFields()
BEFORE_ALL: Final = (-(1 << 62), 0, -1)


class Delay:
    """The parked messages of one topic. Any thread and any number of processes may use it at the same time.

    A message is parked as it is, in an ordinary log, with its due time as `corr_offset`. Headers hold its own
    `corr_offset` and an explicit partition. A process that delivers or cancels holds `lock`.
    """

    def __init__(self, topic: TopicView) -> None:
        self._topic = topic
        self.directory = paths.delayed_directory(topic.directory)
        self.lock = SharedLock(topic.filesystem, paths.delay_lock(topic.directory), topic.clock)
        self.intent = IntentFile(topic.filesystem, paths.intent_file(self.directory))
        self._mutex = threading.RLock()
        self._parkings: dict[str, Parking] = {}
        self._topic_id = ""
        self._rung_for_us = 0
        """The mover was woken for a message with this due time, and checks again at that time."""

    # --- Parking ---

    def due_us(self, delay: Duration | None, deliver_at: datetime | float | int | None) -> int:
        """Returns the due time, in µs since the epoch, of a message put now. Raises BadInput if it is not valid."""
        if (delay is None) == (deliver_at is None):
            raise BadInput("pass either delay, in seconds, or deliver_at, a time")
        now_ns = self._topic.clock.now_ns()
        if delay is not None:
            # Rounded to ns, because 0.067 as a float is not quite 67 ms. Then up to the next whole µs: never early.
            return (now_ns + round(_checked_delay(delay) * 1_000_000_000) + 999) // 1000
        due_us = _checked_time(deliver_at)
        if not 0 <= due_us <= now_ns // 1000 + int(DELAY_S_MAX) * 1_000_000:
            raise BadInput(f"deliver_at {deliver_at!r}: expected a time after 1970, at most a century from now")
        return due_us

    def put(
        self,
        body: bytes,
        due_us: int,
        fields: MessageFields = NO_FIELDS,
        partition: int | None = None,
    ) -> Delayed:
        """Parks one message, and returns its handle when it is as durable as the topic's settings say."""
        horizon, left_us = self._horizon(due_us)
        headers = self._parked_headers(body, fields, partition)
        try:
            log = (self._parkings.get(horizon) or self.parking(horizon)).log
            receipt = log.append(
                body, tag=fields.tag, key=fields.key, headers=headers, id=fields.id, corr_offset=due_us
            )
        except GONE as error:
            raise NoSuchTopic(self._topic.name) from error
        if left_us < RING_US:
            self._ring(due_us)
        return Delayed(self, horizon, receipt.number, due_us)

    def put_many(self, batch: Batch, due_us: int, *, tag: str, partition: int | None) -> list[Delayed]:
        """Parks messages together, with one commit, and returns their handles."""
        batch.check()
        horizon, left_us = self._horizon(due_us)
        rows = range(len(batch.bodies))
        takes_all = self._topic.settings.format.keeps_all_fields
        if not takes_all or batch.headers or batch.corr_offsets or partition is not None:
            headers = [self._row_headers(batch, row, tag, partition) for row in rows]
        else:
            headers = None
        try:
            numbers = self.log(horizon).append_many(
                batch.bodies,
                tag=tag,
                tags=batch.tags,
                keys=batch.keys,
                ids=batch.ids,
                headers=headers,
                corr_offsets=[due_us] * len(batch.bodies),
            )
        except GONE as error:
            raise NoSuchTopic(self._topic.name) from error
        if left_us < RING_US:
            self._ring(due_us)
        return [Delayed(self, horizon, number, due_us) for number in numbers]

    def _ring(self, due_us: int) -> None:
        """Wakes the mover, unless it will wake in time without that."""
        if not self._topic.clock.now_ns() // 1000 < self._rung_for_us <= due_us:
            self._rung_for_us = due_us
            self._topic.store.wakeup.ring()

    def row(
        self,
        body: bytes,
        due_us: int,
        fields: MessageFields = NO_FIELDS,
        partition: int | None = None,
    ) -> tuple[str, Batch]:
        """Returns the horizon of a message, and the batch of one message to append to the log of that horizon."""
        horizon, _ = self._horizon(due_us)
        parked = self._parked_headers(body, fields, partition)
        return horizon, Batch([body], [fields.tag], [fields.key], [fields.id], [parked], [due_us])

    def _horizon(self, due_us: int) -> tuple[str, int]:
        """Returns the horizon for this due time, and how long the message has to wait."""
        left_us = due_us - self._topic.clock.now_ns() // 1000
        return HORIZONS[bisect_left(HORIZON_ENDS_US, left_us)], left_us

    def _row_headers(self, batch: Batch, row: int, tag: str, partition: int | None) -> Mapping[str, bytes] | None:
        fields = MessageFields(
            tag=batch.tags[row] if batch.tags is not None else tag,
            key=batch.keys[row] if batch.keys is not None else None,
            headers=batch.headers[row] if batch.headers is not None else None,
            id=batch.ids[row] if batch.ids is not None else "",
            corr_offset=batch.corr_offsets[row] if batch.corr_offsets is not None else NO_CORR_OFFSET,
        )
        return self._parked_headers(batch.bodies[row], fields, partition)

    def _parked_headers(self, body: bytes, fields: MessageFields, partition: int | None) -> Mapping[str, bytes] | None:
        """Returns the headers of the parked message.

        Raises an error if the topic would refuse the message when it is due.
        """
        key, tag, headers, id, corr_offset = fields
        format = self._topic.settings.format
        if not format.keeps_all_fields:
            # Only packing shows what the topic's logs refuse although the parked log accepts it.
            format.pack_single(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)
        if headers and not RESERVED.isdisjoint(headers):
            raise BadInput(f"a delayed message cannot have the headers {', '.join(sorted(RESERVED))}")
        if corr_offset == NO_CORR_OFFSET and partition is None:
            return headers
        parked = dict(headers or {})
        if corr_offset != NO_CORR_OFFSET:
            parked[CORR_OFFSET_HEADER] = b"%d" % check_corr_offset(corr_offset)
        if partition is not None:
            self._topic.partition(partition)
            parked[PARTITION_HEADER] = b"%d" % partition
        return parked

    # --- The parked logs ---

    def log(self, horizon: str) -> Log:
        """Returns the parked log of a horizon, and creates it if it does not exist.

        Messages that are appended to it are delivered when they are due.
        """
        return self.parking(horizon).log

    def parking(self, horizon: str) -> Parking:
        """Returns the parked messages of this horizon."""
        topic, settings = self._topic, self._topic.settings
        topic.store.check_open()
        with self._mutex:
            parking = self._parkings.get(horizon)
            if parking is None:
                if horizon not in HORIZONS:
                    raise BadInput(f"horizon {horizon!r}: expected one of {', '.join(HORIZONS)}")
                self._topic_id = self._topic_id or self._read_topic_id()
                log = Log.open(
                    paths.parked_directory(self.directory, horizon),
                    durability=settings.durability,
                    block_size=settings.block_size,
                    compression=settings.compression,
                    replication=settings.log_replication,
                    topic=topic.name,
                    filesystem=topic.filesystem,
                    clock=topic.clock,
                )
                parking = self._parkings[horizon] = Parking(log, topic.filesystem, self.directory, horizon)
            return parking

    def parkings(self) -> list[Parking]:
        """Returns the parked messages of all horizons, the near horizons first."""
        filesystem = self._topic.filesystem
        names = set(filesystem.names(self.directory)) if filesystem.exists(self.directory) else set()
        return [self.parking(horizon) for horizon in HORIZONS if horizon in names]

    def count(self) -> int:
        """Returns how many messages are parked."""
        return sum(parking.count() for parking in self.parkings())

    def see_topic(self) -> bool:
        """Returns whether the open files belong to the current topic.

        If not, they are closed and opened again on demand.

        Another process may have deleted the topic and created a new one with the same name. Raises NoSuchTopic if there
        is no topic.
        """
        id, before = self._read_topic_id(), self._topic_id
        if id != before:
            if before:
                self.close()
            self._topic_id = id
        return id == before

    def _read_topic_id(self) -> str:
        data = read_json(self._topic.filesystem, paths.topic_file(self._topic.directory))
        if data is None:
            raise NoSuchTopic(self._topic.name)
        return str(data.get("id"))

    # --- Cancelling and listing ---

    def cancel(self, id: str) -> bool:
        """Returns True if the message will never be delivered, False if it was delivered or cancelled before, or no
        longer exists.
        """
        horizon, number, due_us = parse_handle_id(id)
        topic = self._topic
        if not topic.filesystem.exists(paths.parked_directory(self.directory, horizon)):
            return False
        try:
            with self.lock:
                self.see_topic()
                parking = self.parking(horizon)
                message = None if parking.is_done(number) else parking.at(number)
                if message is None or message.corr_offset != due_us:
                    return False
                intent = self.intent.read()
                # The process that finishes the intent delivers the message.
                if intent is not None and (horizon, number) in intent.rows():
                    return False
                parking.finish([number], is_synced=topic.syncs_answers)
                self._rung_for_us = 0
                return True
        except GONE as error:
            raise NoSuchTopic(topic.name) from error

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """Yields the parked messages by due time, at most `limit`. They are read page by page."""
        return self._pages(_checked_limit(limit))

    def _pages(self, limit: int | None) -> Iterator[Scheduled]:
        after, remaining = BEFORE_ALL, limit
        while remaining is None or remaining > 0:
            page = self._page(after, PAGE_ROWS if remaining is None else min(remaining, PAGE_ROWS))
            if not page:
                return
            for due_us, place, number in page:
                message = self.parking(HORIZONS[place]).at(number)
                if message is not None:
                    yield scheduled_entry(handle_id(HORIZONS[place], number, due_us), message)
            after, remaining = page[-1], None if remaining is None else remaining - len(page)

    def _page(self, after: tuple[int, int, int], limit: int) -> list[tuple[int, int, int]]:
        """Returns the due time, the index of the horizon and the number of the next messages, in order."""
        rows: list[tuple[int, int, int]] = []
        self.see_topic()
        for parking in self.parkings():
            place = HORIZONS.index(parking.horizon)
            number = after[2] if place == after[1] else -1 if place > after[1] else 1 << 62
            pairs = parking.pairs_after((after[0], number), limit)
            rows += ((due_us, place, number) for due_us, number in pairs.tolist())
        return sorted(rows)[:limit]

    # --- Keeping house ---

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Keeps all processes from delivering or cancelling, so that logs can be closed and opened again."""
        with self.lock if self._parkings else nullcontext():
            yield

    def close(self) -> None:
        """Closes the parked logs. They are opened again on demand."""
        with self._mutex:
            parkings, self._parkings = self._parkings, {}
            for parking in parkings.values():
                with suppress(*GONE):
                    parking.close()
            self.intent.close()

    def forget_order(self) -> None:
        """Called when this process is no longer the mover."""
        with self._mutex:
            for parking in self._parkings.values():
                parking.forget_order()

    def after_fork(self) -> None:
        """In a child process: makes a lock of its own. Files are opened again on demand."""
        self._mutex = threading.RLock()
        self._parkings = {}
        self.intent.close()
        self.lock.after_fork()


class DelayingTopic(TopicView, Protocol):
    """A topic with its delayed messages."""

    @property
    def delay(self) -> Delay: ...


def _checked_delay(duration: Duration) -> float:
    delay: object = seconds_of(duration)
    if not isinstance(delay, int | float) or isinstance(delay, bool) or not 0 <= delay <= DELAY_S_MAX:
        raise BadInput(f"delay {delay!r}: expected seconds from 0 to {DELAY_S_MAX:.0f}")
    return delay


def _checked_time(when: object) -> int:
    if not isinstance(when, datetime | int | float) or isinstance(when, bool):
        raise BadInput(f"deliver_at {when!r}: expected a datetime, seconds as float, or µs as int")
    try:
        return microseconds(when)
    except BadInput as error:
        raise BadInput(f"deliver_at {error}") from error


def _checked_limit(limit: object) -> int | None:
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadInput(f"limit {limit!r}: expected a whole number above 0, or None")
    return limit
