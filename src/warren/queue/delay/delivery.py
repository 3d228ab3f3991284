"""Delivery: turns due messages of one topic into ordinary messages of it, exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from warren.errors import TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.delay.delay import DelayingTopic
from warren.queue.delay.handles import HORIZONS, delivered
from warren.queue.delay.intent import Intent, IntentRow, PartitionRows
from warren.queue.delay.parked_log import Parking
from warren.queue.state import paths
from warren.queue.state.append_once import append_once
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BLOCK_SIZE_MAX

MOVE_MAX: Final = 1000
"""How many messages are delivered together, at most."""
MOVE_BYTES_MAX: Final = 8 << 20
LOOK_S: Final = 0.25
"""The longest wait. It bounds the delay after a jump of the clock, and for messages for which the
mover was not woken.
"""
RETIRE_S: Final = 5.0


class Delivery:
    """Delivers for one topic. Only for the mover, which is one process and one thread at a time.

    The order of the writes: first the intent, which names the messages, their partitions and the ends of these
    partitions; then the messages, with a marker; then their done bits; then the next intent. A mover that finds an
    intent finishes it. If one of its bits is set, all its messages were appended and are on disk. If none is set, the
    marker shows which messages are missing.
    """

    def __init__(self, topic: DelayingTopic) -> None:
        self.topic = topic
        self._delay = topic.delay
        self._is_settled = False
        self._retire_s = topic.clock.steady_s() + RETIRE_S

    def step(self) -> float:
        """Delivers some of the due messages. Returns after how many seconds there is more to do."""
        topic = self.topic
        topic.refresh()
        with self._delay.lock:
            if not self._delay.see_topic() or not self._is_settled:
                self._settle()
                self._is_settled = True
            parkings = self._delay.parkings()
            is_behind = [not parking.order.catch_up() for parking in parkings]
            if any(is_behind):
                return 0.0
            count = self._deliver_due(parkings)
            if topic.clock.steady_s() >= self._retire_s:
                self._retire_s = topic.clock.steady_s() + RETIRE_S
                for parking in parkings:
                    parking.retire()
            if count or any(parking.order.is_merging for parking in parkings):
                return 0.0
            return self._wait_s(parkings)

    def _wait_s(self, parkings: Sequence[Parking]) -> float:
        dues = [due_us for parking in parkings if (due_us := parking.order.next_due_us()) is not None]
        left_ns = min(dues, default=1 << 62) * 1000 - self.topic.clock.now_ns()
        return min(LOOK_S, max(0.0, left_ns / 1e9))

    # --- One batch ---

    def _deliver_due(self, parkings: Sequence[Parking]) -> int:
        """Delivers a batch. Returns how many messages it had."""
        now_us = self.topic.clock.now_ns() // 1000
        rows = sorted(
            (due_us, HORIZONS.index(parking.horizon), number)
            for parking in parkings
            for due_us, number in parking.order.due(now_us, MOVE_MAX).tolist()
        )[:MOVE_MAX]
        by_horizon = {parking.horizon: parking for parking in parkings}
        messages: dict[IntentRow, Message] = {}
        for (due_us, place, number), message in self._messages(by_horizon, rows):
            if message is None or message.corr_offset != due_us:
                # The order is derived from the log. If it is wrong, it is rebuilt.
                by_horizon[HORIZONS[place]].order.rebuild()
                return 1
            messages[HORIZONS[place], number] = message
        if messages:
            self._deliver(messages)
        return len(messages)

    def _messages(
        self, by_horizon: Mapping[str, Parking], rows: Sequence[tuple[int, int, int]]
    ) -> Iterator[tuple[tuple[int, int, int], Message | None]]:
        """Yields the parked messages of the rows, up to a limit of bytes."""
        size, row = 0, 0
        while row < len(rows) and size < MOVE_BYTES_MAX:
            _, place, number = rows[row]
            end = row + 1
            # Consecutive numbers are read together.
            while end < len(rows) and rows[end][1:] == (place, number + end - row):
                end += 1
            log = by_horizon[HORIZONS[place]].log
            messages: Sequence[Message | None]
            if end - row == 1:
                messages = [log.at(number)]
            else:
                messages = log.read(number, limit=end - row, bytes_max=MOVE_BYTES_MAX - size) or [None]
            for message in messages:
                yield rows[row], message
                size, row = size + len(message.body if message else b""), row + 1

    def _deliver(self, messages: Mapping[IntentRow, Message]) -> None:
        topic, rows = self.topic, dict[int, list[IntentRow]]()
        for row, message in messages.items():
            partition = delivered(message)[2]
            rows.setdefault(topic.route(message.key) if partition is None else partition, []).append(row)
        for horizon in {horizon for horizon, _ in messages}:
            # The intent refers to messages by number. A power cut must not give these numbers to other messages.
            self._delay.log(horizon).sync()
        targets = [
            PartitionRows(partition, topic.logs[partition].end, part) for partition, part in sorted(rows.items())
        ]
        intent = Intent(uuid.uuid4().hex, targets)
        self._is_settled = False
        self._delay.intent.write(intent)
        self._append(intent, messages)
        self._finish(intent)
        self._is_settled = True

    # --- What another mover left ---

    def _settle(self) -> None:
        """Finishes the last intent. Another process may have written it."""
        intent = self._delay.intent.read()
        if intent is None:
            return
        if not any(self._delay.parking(horizon).is_done(number) for horizon, number in intent.rows()):
            # Nothing may be appended before the intent is on disk, and its writer may have died before the sync.
            self._delay.intent.sync()
            self._append(intent, {row: self._parked(*row) for row in intent.rows()})
        self._finish(intent)

    def _parked(self, horizon: str, number: int) -> Message:
        message = self._delay.parking(horizon).at(number)
        assert message is not None, "a message of an intent that is not done is parked and on disk"
        return message

    def _append(self, intent: Intent, messages: Mapping[IntentRow, Message]) -> None:
        """Appends the missing messages of the intent, and syncs them."""
        marker = intent.marker.encode()
        for target in intent.targets:
            batch = _batch([messages[row] for row in target.rows])
            try:
                self._append_batch(self.topic.logs[target.partition], batch, marker, target)
            except TooLarge:
                # These messages were parked before the blocks of the topic were made smaller.
                with self._wide_log(target.partition) as log:
                    self._append_batch(log, batch, marker, target)

    def _append_batch(self, log: Log, batch: Batch, marker: bytes, target: PartitionRows) -> None:
        def id_of(row: int) -> str:
            horizon, number = target.rows[row]
            return f"delayed-{horizon}-{number}"

        append_once(log, batch, marker, target.since, id_of=id_of)
        # Synced before the bits are set: a power cut must not remove a message whose bit says that it was delivered.
        log.sync()

    def _wide_log(self, partition: int) -> Log:
        topic = self.topic
        return Log.open(
            paths.partition_directory(topic.directory, partition),
            block_size=BLOCK_SIZE_MAX,
            durability=topic.settings.durability,
            replication=topic.settings.log_replication,
            filesystem=topic.filesystem,
            clock=topic.clock,
        )

    def _finish(self, intent: Intent) -> None:
        for horizon, numbers in intent.numbers().items():
            parking = self._delay.parking(horizon)
            # Setting a bit below the first number would create a file again that was removed.
            parking.finish([number for number in numbers if number >= parking.log.first])


def _batch(messages: Sequence[Message]) -> Batch:
    """Returns the messages as they are appended to the log of a partition."""
    own = [delivered(message) for message in messages]
    ids = [message.id for message in messages]
    has_headers = any(headers for headers, _, _ in own)
    has_corr_offsets = any(corr_offset != NO_CORR_OFFSET for _, corr_offset, _ in own)
    return Batch(
        [message.body for message in messages],
        [message.tag for message in messages],
        [message.key for message in messages] if any(message.key is not None for message in messages) else None,
        ids if any(ids) else None,
        [headers for headers, _, _ in own] if has_headers else None,
        [corr_offset for _, corr_offset, _ in own] if has_corr_offsets else None,
    )
