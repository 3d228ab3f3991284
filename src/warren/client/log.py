"""RemoteLog: one partition of a broker's topic, with the reading and appending methods of a local log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from warren.api.values import ColumnOptions, FieldOptions, MessageFields
from warren.client.net.call_steps import Steps, run, stepwise
from warren.clock import Duration, microseconds, seconds_of
from warren.errors import FellBehind, NumberRetired
from warren.limits import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.message import Message, Receipt
from warren.protocol.native.arrow import aligned_buffer
from warren.protocol.native.calls import positions_of
from warren.protocol.native.records import messages_of
from warren.protocol.native_messages import (
    OpenTopicResponsePartition,
    ReadRequest,
    ReadResponse,
    ScanRequest,
    ScanResponse,
    WirePosition,
)
from warren.storage.format.columns import Batch
from warren.storage.format.limits import SCAN_IN_PLACE_ROWS_MIN
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import Page

if TYPE_CHECKING:
    import pyarrow

    from warren.client.remote_view import RemoteTopicView

BACKWARDS_STEP: Final = 256
SCANS_AHEAD: Final = 3
"""How many requests of a scan are sent ahead."""
SEND_AHEAD_S: Final = 0.001
"""A call that may wait is sent this early, before the client waits for its answer."""
NO_END: Final = -1


class ReadResult(NamedTuple):
    """Messages, the number to continue from, and whether there are messages from that number on."""

    messages: list[Message]
    next_number: int
    is_more: bool


def _is_past(number: int, answer: ScanResponse) -> bool:
    return answer.next > number


class RemoteLog:
    """One partition. Any thread may use it. Each result is what the log at the broker holds at that moment."""

    def __init__(self, topic: RemoteTopicView, partition: int) -> None:
        self._topic, self._partition = topic, partition

    # --- Appending ---

    def append(self, body: bytes, **options: Unpack[FieldOptions]) -> Receipt:
        """Appends one message, and returns its receipt."""
        fields = MessageFields(**options)
        receipt = self._topic.put(body, partition=self._partition, **fields._asdict())
        return Receipt(receipt.number, receipt.offset, receipt.timestamp, receipt.id)

    def append_many(self, bodies: Sequence[bytes], *, tag: str = "", **columns: Unpack[ColumnOptions]) -> range:
        """Appends messages together, with one commit for all. Returns their numbers."""
        batch = Batch(bodies, **columns)
        if not bodies:
            return range(self.end, self.end)
        first = self._topic.append({self._partition: batch}, tag)[self._partition]
        return range(first, first + len(bodies))

    def append_arrow(self, batch: pyarrow.RecordBatch) -> range:
        """Appends the rows of an Arrow record batch, without a Python loop over them. Returns their numbers."""
        if not batch.num_rows:
            return range(self.end, self.end)
        first = self._topic.append_arrow(self._partition, batch)
        return range(first, first + batch.num_rows)

    # --- Reading ---

    @property
    def first(self) -> int:
        """Returns the number of the first message that retention has kept."""
        return self._partition_state().first

    @property
    def end(self) -> int:
        """Returns the number that the next message will get."""
        return self._partition_state().end

    def _partition_state(self) -> OpenTopicResponsePartition:
        return self._topic.current_state().partitions[self._partition]

    def at(self, number: int) -> Message | None:
        """Returns message `number`; None if it is past the end, or in a batch that cannot be read."""
        messages = self.read(number, limit=1)
        return messages[0] if messages and messages[0].number == number else None

    def read(
        self, number: int, *, limit: int = READ_LIMIT_DEFAULT, bytes_max: int | None = None, tag: str | None = None
    ) -> list[Message]:
        """Returns up to `limit` messages from `number` on that pass the filter, with up to `bytes_max` bytes of bodies.

        The first one is returned even if it is larger than that. Returns no messages past the end.
        """
        messages: list[Message] = []
        room = bytes_max
        while len(messages) < limit and (room is None or room > 0 or not messages):
            page = run(self._page(number, limit - len(messages), tag, 0.0, room))
            messages += page.messages
            # An answer has a limited size, so a large read needs several.
            if not page.is_more or (not page.messages and page.next_number == number):
                break
            number = page.next_number
            room = None if room is None else room - sum(len(message.body) for message in page.messages)
        return messages

    def _page(
        self, number: int, limit: int, tag: str | None, wait_s: float, bytes_max: int | None = None
    ) -> Steps[ReadResult]:
        request = ReadRequest(
            topic=str(self._topic.name),
            positions=[WirePosition(self._partition, number)],
            tag=tag,
            limit=limit,
            bytes_max=bytes_max or 0,
        )

        def is_done(answer: ReadResponse) -> bool:
            # The next request continues after the messages that did not pass the filter.
            request.positions = answer.positions
            return bool(answer.messages.records)

        def is_more(answer: ReadResponse) -> bool:
            # The broker has reached its search limit for one request.
            return answer.is_more and not answer.messages.records

        try:
            answer = yield from self._topic.store.reads.waiting(request, wait_s, is_done, is_more=is_more)
        except FellBehind as error:
            raise NumberRetired(error.number, error.first) from error
        messages = messages_of(answer.messages, self._topic.name)
        return ReadResult(messages, positions_of(answer.positions)[self._partition], answer.is_more)

    @stepwise
    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: Duration) -> Steps[Page]:
        """Returns a page from `number` on.

        If it is empty, waits up to `wait` seconds for a message that passes the filter.
        """
        answer = yield from self._page(
            number, limit, None if tag is None else tag.text, min(seconds_of(wait), WAIT_S_MAX)
        )
        return Page(answer.messages, answer.next_number)

    def wait(self, number: int, seconds: Duration) -> bool:
        """Waits up to `seconds` until message `number` exists. Returns whether it does."""
        return bool(run(self._page(number, 1, None, min(seconds_of(seconds), WAIT_S_MAX))).messages)

    def backwards(self, number: int | None = None) -> Iterator[Message]:
        """Yields messages from `number`, or from the last one if no number is given, down to the first."""
        part = self._partition_state()
        if number is not None and number < part.first:
            raise NumberRetired(number, part.first)
        following = part.end - 1 if number is None else number
        while following >= part.first:
            request = ReadRequest(
                topic=str(self._topic.name),
                positions=[WirePosition(self._partition, following)],
                limit=BACKWARDS_STEP,
                is_backwards=True,
            )
            answer = run(self._topic.store.reads.calling(request, partial(self._is_below, following)))
            yield from messages_of(answer.messages, self._topic.name)
            following = positions_of(answer.positions)[self._partition]

    def _is_below(self, number: int, answer: ReadResponse) -> bool:
        return positions_of(answer.positions)[self._partition] < number

    def last(self, count: int = 1) -> list[Message]:
        """Returns the last `count` messages, in order."""
        if count <= 0:
            return []
        part = self._partition_state()
        return self.read(max(part.first, part.end - count), limit=count)

    def find_time(self, when: datetime | float | int) -> int:
        """Returns the number of the first message at or after `when`; `end` if there is none."""
        return self._topic.find_time(microseconds(when))[self._partition]

    def scan(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        tag: str | None = None,
        since: datetime | float | int | None = None,
        until: datetime | float | int | None = None,
        rows_min: int = SCAN_IN_PLACE_ROWS_MIN,
        skips: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the messages from `start` up to `end`, from `since` up to `until`, that pass the filter, as Arrow."""
        part = self._partition_state()
        start = part.first if start is None else start
        end = part.end if end is None else min(end, part.end)
        if since is not None:
            start = max(start, self.find_time(since))
        if until is not None:
            end = min(end, self.find_time(until))
        topic, partition = str(self._topic.name), self._partition
        return self._scanned(
            start,
            end,
            lambda start, end: ScanRequest(topic, partition, start, end, columns, tag, rows_min, skips),
        )

    def _scanned(
        self, start: int, end: int, request: Callable[[int, int], ScanRequest]
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the batches of each answer. While the caller uses one batch, the broker prepares the next answers.

        Each further request covers as many numbers as the last answer contained.
        """
        import pyarrow

        reads, following, count = self._topic.store.reads, start, end - start
        requests: deque[tuple[int, int, Steps[ScanResponse]]] = deque()

        def ask() -> None:
            nonlocal following
            while following < end and len(requests) < SCANS_AHEAD:
                stop = min(end, following + count)
                steps = reads.calling(request(following, stop), partial(_is_past, following), wait_s=SEND_AHEAD_S)
                next(steps)
                requests.append((following, stop, steps))
                following = stop

        ask()
        while requests:
            begun, stop, steps = requests.popleft()
            answer = run(steps)
            if answer.next < stop and not requests:
                stop = following = answer.next
                count = max(1, following - begun)
            ask()
            while True:
                if answer.arrow:
                    assert isinstance(answer.arrow, memoryview)
                    yield from pyarrow.ipc.open_stream(aligned_buffer(answer.arrow))
                if answer.next >= stop:
                    break
                # The messages are larger than before: the part that did not fit comes before the parts that were
                # requested already.
                rest = reads.calling(request(answer.next, stop), partial(_is_past, answer.next))
                answer = run(rest)

    def __repr__(self) -> str:
        return f"<RemoteLog {self._partition} of {self._topic.name} at {self._topic.store.calls.address}>"
