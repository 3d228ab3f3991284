"""RemoteBroadcast: reads every message of a broker's topic, from a start position on. It stores no position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from warren.api.values import Where
from warren.client.net.call_steps import Steps, stepwise
from warren.clock import Duration, microseconds
from warren.errors import BadInput, FellBehind
from warren.limits import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.message import END, START, Edge, Message
from warren.protocol.native.calls import positions_of, wire_positions
from warren.protocol.native.records import messages_of
from warren.protocol.native_messages import ReadRequest, ReadResponse
from warren.queue.stream.rotation import checked_limit, checked_wait_s
from warren.storage.format.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.remote_view import RemoteTopicView


class RemoteBroadcast:
    """One listener: it gets every message that passes its filter, ordered within each partition. One thread at a time.

    It starts at the end of each partition, or at `start`: one place or time for all partitions, or a number for each
    named partition. An iteration ends when no message came for `wait` seconds; if `wait` is None, it never ends.
    """

    def __init__(
        self, topic: RemoteTopicView, *, tag: str | None, start: Where | Mapping[int, int] | None, wait: Duration | None
    ) -> None:
        self._topic, self._tag = topic, tag
        if tag is not None:
            TagFilter.parse(tag)
        self._wait_s = None if wait is None else checked_wait_s(wait)
        self._positions = self._begin(END if start is None else start)

    def _begin(self, start: Where | Mapping[int, int]) -> dict[int, int]:
        parts = self._topic.current_state().partitions
        if isinstance(start, Mapping):
            for partition in start:
                self._topic.partition(partition)
            return {part.partition: start.get(part.partition, part.end) for part in parts}
        if isinstance(start, Edge):
            return {part.partition: part.first if start is START else part.end for part in parts}
        if isinstance(start, bool) or not isinstance(start, int | float | datetime):
            raise BadInput(f"{start!r}: expected a number, a time, START or END")
        if isinstance(start, int):
            return {part.partition: min(start, part.end) for part in parts}
        return self._topic.find_time(microseconds(start))

    @stepwise
    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> Steps[list[Message]]:
        """Returns up to `limit` messages. If there is none, waits up to `wait` seconds for one.

        Raises FellBehind if retention removed the next message. The next call continues with the first remaining one.
        """
        request = ReadRequest(
            topic=str(self._topic.name),
            tag=self._tag,
            limit=checked_limit(limit),
            positions=wire_positions(self._positions),
        )

        def is_done(answer: ReadResponse) -> bool:
            # The partition that was read last moves to the end of the order, so that partitions take turns.
            positions = positions_of(answer.positions)
            moved = [partition for partition in positions if positions[partition] != self._positions[partition]]
            rest = [partition for partition in positions if partition not in moved]
            self._positions = {partition: positions[partition] for partition in [*rest, *moved]}
            # Partitions that were added since are read from their first message on.
            self._positions |= dict.fromkeys(range(len(positions), answer.partition_count), 0)
            request.positions = wire_positions(self._positions)
            return bool(answer.messages.records)

        try:
            reads = self._topic.store.reads
            # The broker searches a limited number of bytes per request. Messages that pass the filter may lie after
            # them.
            answer = yield from reads.waiting(
                request, checked_wait_s(wait), is_done, is_more=lambda answer: answer.is_more
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
