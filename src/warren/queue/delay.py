"""Delay: messages of a topic that wait, parked by horizon, until they are due."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from warren.clock import Duration, microseconds, seconds_of
from warren.config import DELAY_S_MAX
from warren.errors import GONE, BadInput, NoSuchTopic
from warren.message import NO_CORR_OFFSET
from warren.queue import store_paths
from warren.queue.delayed import (
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
from warren.queue.intent import IntentFile
from warren.queue.json_file import read_json
from warren.queue.parking import Parking
from warren.queue.shared_lock import SharedLock
from warren.storage import Log, zbus
from warren.storage.columns import Batch
from warren.storage.record import check_corr_offset

if TYPE_CHECKING:
    from warren.queue.topic import Topic

HORIZON_ENDS_US: Final = (60_000_000, 3_600_000_000, 86_400_000_000, 30 * 86_400_000_000)
RING_US: Final = 500_000
"""Who parks a message that is due so soon rings: the mover looks by itself often enough for all others."""
PAGE_ROWS: Final = 500
BEFORE_ALL: Final = (-(1 << 62), 0, -1)


class Delay:
    """What is parked for one topic. Any thread may use it, and any number of processes at once.

    A message is parked as itself, in an ordinary log, with its due time as `corr_offset`; its own `corr_offset` and an
    explicit partition wait in headers. `lock` is held by whoever delivers or cancels.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.directory = store_paths.delayed_directory(topic.directory)
        self.lock = SharedLock(topic.filesystem, store_paths.delay_lock(topic.directory), topic.clock)
        self.intent = IntentFile(topic.filesystem, store_paths.intent_file(self.directory))
        self._mutex = threading.RLock()
        self._parkings: dict[str, Parking] = {}
        self._topic_id = ""
        self._rung_for_us = 0
        """The mover was woken for a message with this due time, and looks again when that is due."""

    # --- Parking ---

    def due_us(self, delay: Duration | None, deliver_at: datetime | float | int | None) -> int:
        """The due time in µs since the epoch of a message put now; BadInput for what cannot be one."""
        if (delay is None) == (deliver_at is None):
            raise BadInput("give either delay, in seconds, or deliver_at, a time")
        now_ns = self._topic.clock.now_ns()
        if delay is not None:
            # The seconds that are meant: 0.067 is not quite 67 ms. Then up to the next whole µs: never early.
            return (now_ns + round(_checked_delay(delay) * 1_000_000_000) + 999) // 1000
        due_us = _checked_time(deliver_at)
        if not 0 <= due_us <= now_ns // 1000 + int(DELAY_S_MAX) * 1_000_000:
            raise BadInput(f"deliver_at {deliver_at!r}: expected a time after 1970, at most a century from now")
        return due_us

    def put(
        self,
        body: bytes,
        due_us: int,
        *,
        key: bytes | None,
        tag: str,
        headers: Mapping[str, bytes] | None,
        id: str,
        corr_offset: int,
        partition: int | None,
    ) -> Delayed:
        """Park one message; its handle, when it is as durable as the topic's settings say."""
        horizon, left_us = self._horizon(due_us)
        headers = self._parked_headers(body, tag, key, headers, id, corr_offset, partition)
        try:
            log = (self._parkings.get(horizon) or self.parking(horizon)).log
            number = log.append(body, tag=tag, key=key, headers=headers, id=id, corr_offset=due_us).number
        except GONE as error:
            raise NoSuchTopic(self._topic.name) from error
        if left_us < RING_US:
            self._ring(due_us)
        return Delayed(self, horizon, number, due_us)

    def put_many(self, batch: Batch, due_us: int, *, tag: str, partition: int | None) -> list[Delayed]:
        """Park messages together, with one commit; their handles."""
        batch.check()
        horizon, left_us = self._horizon(due_us)
        rows = range(len(batch.bodies))
        if self._topic.settings.version == 1 or batch.headers or batch.corr_offsets or partition is not None:
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
        """Wake the mover for what was parked, unless it wakes before that is due, and so sees it in time."""
        if not self._topic.clock.now_ns() // 1000 < self._rung_for_us <= due_us:
            self._rung_for_us = due_us
            self._topic.store.wakeup.ring()

    def row(
        self,
        body: bytes,
        due_us: int,
        *,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
    ) -> tuple[str, Batch]:
        """A message as it has to be appended to the log of a horizon to be parked: the horizon, and a batch of one."""
        horizon, _ = self._horizon(due_us)
        parked = self._parked_headers(body, tag, key, headers, id, corr_offset, partition)
        return horizon, Batch([body], [tag], [key], [id], [parked], [due_us])

    def _horizon(self, due_us: int) -> tuple[str, int]:
        """Where a message with this due time is parked, and how long it has to wait."""
        left_us = due_us - self._topic.clock.now_ns() // 1000
        return HORIZONS[bisect_left(HORIZON_ENDS_US, left_us)], left_us

    def _row_headers(self, batch: Batch, row: int, tag: str, partition: int | None) -> Mapping[str, bytes] | None:
        return self._parked_headers(
            batch.bodies[row],
            batch.tags[row] if batch.tags is not None else tag,
            batch.keys[row] if batch.keys is not None else None,
            batch.headers[row] if batch.headers is not None else None,
            batch.ids[row] if batch.ids is not None else "",
            batch.corr_offsets[row] if batch.corr_offsets is not None else NO_CORR_OFFSET,
            partition,
        )

    def _parked_headers(
        self,
        body: bytes,
        tag: str,
        key: bytes | None,
        headers: Mapping[str, bytes] | None,
        id: str,
        corr_offset: int,
        partition: int | None,
    ) -> Mapping[str, bytes] | None:
        """The headers with what waits in them; an error for what the topic would not take when it is due."""
        if self._topic.settings.version == 1:
            # Nothing else tells what a log of version 1 refuses.
            zbus.pack_single(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)
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
        """The parked log of a horizon, made where there is none. Whatever is appended to it is delivered when due."""
        return self.parking(horizon).log

    def parking(self, horizon: str) -> Parking:
        """What is parked with this horizon."""
        topic, settings = self._topic, self._topic.settings
        topic.store.check_open()
        with self._mutex:
            parking = self._parkings.get(horizon)
            if parking is None:
                if horizon not in HORIZONS:
                    raise BadInput(f"horizon {horizon!r}: expected one of {', '.join(HORIZONS)}")
                self._topic_id = self._topic_id or self._read_topic_id()
                log = Log.open(
                    store_paths.parked_directory(self.directory, horizon),
                    durability=settings.durability,
                    block_size=settings.block_size,
                    compression=settings.compression,
                    topic=topic.name,
                    filesystem=topic.filesystem,
                    clock=topic.clock,
                )
                parking = self._parkings[horizon] = Parking(log, topic.filesystem, self.directory, horizon)
            return parking

    def parkings(self) -> list[Parking]:
        """Everything that is parked, the near horizons first."""
        filesystem = self._topic.filesystem
        names = set(filesystem.names(self.directory)) if filesystem.exists(self.directory) else set()
        return [self.parking(horizon) for horizon in HORIZONS if horizon in names]

    def count(self) -> int:
        """How many messages are parked."""
        return sum(parking.count() for parking in self.parkings())

    def see_topic(self) -> bool:
        """Whether the topic is the one whose files are open here; if not, they are opened anew when they are needed.

        NoSuchTopic where there is none. Another process may have deleted the topic, and made another of that name.
        """
        id, before = self._read_topic_id(), self._topic_id
        if id != before:
            if before:
                self.close()
            self._topic_id = id
        return id == before

    def _read_topic_id(self) -> str:
        data = read_json(self._topic.filesystem, store_paths.topic_file(self._topic.directory))
        if data is None:
            raise NoSuchTopic(self._topic.name)
        return str(data.get("id"))

    # --- Cancelling and listing ---

    def cancel(self, id: str) -> bool:
        """True: the message will never be delivered. False: it was delivered or cancelled before, or is no more."""
        horizon, number, due_us = parse_handle_id(id)
        topic = self._topic
        if not topic.filesystem.exists(store_paths.parked_directory(self.directory, horizon)):
            return False
        try:
            with self.lock:
                self.see_topic()
                parking = self.parking(horizon)
                message = None if parking.is_done(number) else parking.at(number)
                if message is None or message.corr_offset != due_us:
                    return False
                intent = self.intent.read()
                # Whoever finishes the intent delivers it, if that was not done already.
                if intent is not None and (horizon, number) in intent.rows():
                    return False
                parking.finish([number], is_synced=topic.settings.durability == "commit")
                self._rung_for_us = 0
                return True
        except GONE as error:
            raise NoSuchTopic(topic.name) from error

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """What is parked, by due time, the first `limit` of it. Read page by page as it is asked for."""
        return self._pages(_checked_limit(limit))

    def _pages(self, limit: int | None) -> Iterator[Scheduled]:
        after, left = BEFORE_ALL, limit
        while left is None or left > 0:
            page = self._page(after, PAGE_ROWS if left is None else min(left, PAGE_ROWS))
            if not page:
                return
            for due_us, place, number in page:
                message = self.parking(HORIZONS[place]).at(number)
                if message is not None:
                    yield scheduled_entry(handle_id(HORIZONS[place], number, due_us), message)
            after, left = page[-1], None if left is None else left - len(page)

    def _page(self, after: tuple[int, int, int], limit: int) -> list[tuple[int, int, int]]:
        """The due time, the place of the horizon and the number of what comes next, in order."""
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
        """Nobody of this topic delivers or cancels, so that logs can be closed and opened anew."""
        with self.lock if self._parkings else nullcontext():
            yield

    def close(self) -> None:
        """Close the parked logs. They are opened again when they are needed."""
        with self._mutex:
            parkings, self._parkings = self._parkings, {}
            for parking in parkings.values():
                with suppress(*GONE):
                    parking.close()
            self.intent.close()

    def forget_order(self) -> None:
        """This process is no longer the mover."""
        with self._mutex:
            for parking in self._parkings.values():
                parking.forget_order()

    def after_fork(self) -> None:
        """In a child: its own lock, and files opened anew."""
        self._mutex = threading.RLock()
        self._parkings = {}
        self.intent.close()
        self.lock.after_fork()


def _checked_delay(given: Duration) -> float:
    delay: object = seconds_of(given)
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
