"""RemoteBroadcast: everything that is put to a topic of a broker from some place on. Nothing is kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from warren.client.calls import same
from warren.client.steps import Steps, stepwise
from warren.clock import Duration, microseconds
from warren.config import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.errors import BadInput, FellBehind
from warren.message import Message
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import position_values, positions_of
from warren.protocol.own_records import messages_of
from warren.protocol.own_schemas import OwnKey
from warren.queue.positions import Where
from warren.queue.rotation import checked_limit, checked_wait_s
from warren.storage.reader import END, START, Place
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.topic import RemoteTopic


class RemoteBroadcast:
    """One listener: it gets every message that passes its filter, ordered within each partition. One thread at a time.

    It starts where each partition ends, or at `start`: a place or time for all partitions, or a number for each that
    is named. Iterating ends when nothing came for `wait` seconds; with None it never does.
    """

    def __init__(
        self, topic: RemoteTopic, *, tag: str | None, start: Where | Mapping[int, int] | None, wait: Duration | None
    ) -> None:
        self._topic, self._tag = topic, tag
        if tag is not None:
            TagFilter.parse(tag)
        self._wait_s = None if wait is None else checked_wait_s(wait)
        self._positions = self._begin(END if start is None else start)

    def _begin(self, start: Where | Mapping[int, int]) -> dict[int, int]:
        shown = self._topic.shown().partitions
        if isinstance(start, Mapping):
            for partition in start:
                self._topic.partition(partition)
            return {part.partition: start.get(part.partition, part.end) for part in shown}
        if isinstance(start, Place):
            return {part.partition: part.first if start is START else part.end for part in shown}
        if isinstance(start, bool) or not isinstance(start, int | float | datetime):
            raise BadInput(f"{start!r}: expected a number, a time, START or END")
        if isinstance(start, int):
            return {part.partition: min(start, part.end) for part in shown}
        return self._topic.find_time(microseconds(start))

    @stepwise
    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> Steps[list[Message]]:
        """Up to `limit` messages; where there is none, waits up to `wait` seconds for one.

        FellBehind where retention removed what came next: the call after it goes on with the first message still there.
        """
        values = {
            "topic": str(self._topic.name),
            "tag": self._tag,
            "limit": checked_limit(limit),
            "positions": position_values(self._positions),
        }

        def is_done(answer: Fields) -> bool:
            # The last one that was read comes first: each partition has its turn.
            found = positions_of(answer.positions)
            moved = [partition for partition in found if found[partition] != self._positions[partition]]
            rest = [partition for partition in found if partition not in moved]
            self._positions = {partition: found[partition] for partition in [*rest, *moved]}
            # Partitions that were added are heard from their first message on.
            self._positions |= dict.fromkeys(range(len(found), answer.partition_count), 0)
            values["positions"] = position_values(self._positions)
            return bool(answer.messages.records)

        try:
            calls = self._topic.store.calls
            # The broker looks through so many bytes at once; what passes the filter may lie behind them.
            answer = yield from calls.waiting(
                OwnKey.READ, values, checked_wait_s(wait), is_done, repeat=same, is_more=lambda found: found.is_more
            )
        except FellBehind as error:
            self._positions[error.partition] = error.first
            raise
        return messages_of(answer.messages, self._topic.name)

    def __iter__(self) -> Iterator[Message]:
        while True:
            messages = self.read(wait=WAIT_S_MAX if self._wait_s is None else self._wait_s)
            yield from messages
            if not messages and self._wait_s is not None:
                return

    def __repr__(self) -> str:
        return f"<RemoteBroadcast of {self._topic.name}>"
