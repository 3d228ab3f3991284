"""RemoteLog: one partition of a topic of a broker, read and appended to as if it were here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warren.client.calls import same
from warren.client.steps import Steps, run, stepwise
from warren.clock import Duration, microseconds, seconds_of
from warren.config import READ_LIMIT_DEFAULT, SCAN_IN_PLACE_ROWS_MIN, WAIT_S_MAX
from warren.errors import FellBehind, NumberRetired
from warren.message import NO_CORR_OFFSET, Message, Receipt
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import position_values, positions_of
from warren.protocol.own_arrow import aligned_buffer
from warren.protocol.own_records import messages_of
from warren.protocol.own_schemas import OwnKey
from warren.storage.columns import Batch
from warren.storage.read import Page
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    import pyarrow

    from warren.client.topic import RemoteTopic

BACKWARDS_STEP: Final = 256
SCANS_AHEAD: Final = 3
"""How many answers of a scan are under way at once."""
SEND_AHEAD_S: Final = 0.001
"""A call that may wait is sent before its answer is waited for."""
NO_END: Final = -1


class Answer(NamedTuple):
    """Messages, the number to go on from, and whether there is something from there on."""

    messages: list[Message]
    next_number: int
    is_more: bool


class RemoteLog:
    """One partition. Any thread may use it. What it gives is what the log at the broker gives, at that moment."""

    def __init__(self, topic: RemoteTopic, partition: int) -> None:
        self._topic, self._partition = topic, partition

    # --- Appending ---

    def append(
        self,
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Receipt:
        """Append one message."""
        fields: dict[str, Any] = {"tag": tag, "key": key, "headers": headers, "id": id, "corr_offset": corr_offset}
        receipt = self._topic.put(body, partition=self._partition, **fields)
        return Receipt(receipt.number, receipt.offset, receipt.timestamp, receipt.id)

    def append_many(
        self,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
    ) -> range:
        """Append messages together, with one commit for all; the numbers they got."""
        batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
        if not bodies:
            return range(self.end, self.end)
        first = self._topic.append({self._partition: batch}, tag)[self._partition]
        return range(first, first + len(bodies))

    def append_arrow(self, batch: pyarrow.RecordBatch) -> range:
        """Append the rows of an Arrow record batch, without a Python loop over them."""
        if not batch.num_rows:
            return range(self.end, self.end)
        first = self._topic.append_arrow(self._partition, batch)
        return range(first, first + batch.num_rows)

    # --- Reading ---

    @property
    def first(self) -> int:
        """The number of the first message that is still there."""
        return int(self._shown().first)

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        return int(self._shown().end)

    def _shown(self) -> Fields:
        found: Fields = self._topic.shown().partitions[self._partition]
        return found

    def at(self, number: int) -> Message | None:
        """Message `number`; None past the end, and if it is in a batch that cannot be read."""
        messages = self.read(number, limit=1)
        return messages[0] if messages and messages[0].number == number else None

    def read(
        self, number: int, *, limit: int = READ_LIMIT_DEFAULT, bytes_max: int | None = None, tag: str | None = None
    ) -> list[Message]:
        """Up to `limit` messages from `number` on that pass the filter, of at most `bytes_max` bytes of bodies in all.

        One that is larger by itself is given all the same. Past the end there is none.
        """
        messages: list[Message] = []
        room = bytes_max
        while len(messages) < limit and (room is None or room > 0 or not messages):
            page = run(self._page(number, limit - len(messages), tag, 0.0, room))
            messages += page.messages
            # An answer holds so many bytes and no more: it takes several where more is wanted.
            if not page.is_more or (not page.messages and page.next_number == number):
                break
            number = page.next_number
            room = None if room is None else room - sum(len(message.body) for message in page.messages)
        return messages

    def _page(
        self, number: int, limit: int, tag: str | None, wait_s: float, bytes_max: int | None = None
    ) -> Steps[Answer]:
        values = {
            "topic": str(self._topic.name),
            "positions": position_values({self._partition: number}),
            "tag": tag,
            "limit": limit,
            "bytes_max": bytes_max or 0,
        }
        found = {"number": number}

        def is_done(answer: Fields) -> bool:
            found["number"] = positions_of(answer.positions)[self._partition]
            # Where nothing passed the filter, nobody looks at it again.
            values["positions"] = position_values({self._partition: found["number"]})
            return bool(answer.messages.records)

        def is_more(answer: Fields) -> bool:
            # The broker has looked through as much as it does at once.
            return bool(answer.is_more) and not answer.messages.records

        try:
            answer = yield from self._topic.store.calls.waiting(
                OwnKey.READ, values, wait_s, is_done, repeat=same, is_more=is_more
            )
        except FellBehind as error:
            raise NumberRetired(error.number, error.first) from error
        messages = messages_of(answer.messages, self._topic.name)
        return Answer(messages, found["number"], answer.is_more)

    @stepwise
    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: Duration) -> Steps[Page]:
        """A page from `number` on; where it is empty, waits up to `wait` seconds for a message that passes."""
        found = yield from self._page(
            number, limit, None if tag is None else tag.text, min(seconds_of(wait), WAIT_S_MAX)
        )
        return Page(found.messages, found.next_number)

    def wait(self, number: int, seconds: Duration) -> bool:
        """Wait until message `number` is there, at most `seconds`; whether it is."""
        return bool(run(self._page(number, 1, None, min(seconds_of(seconds), WAIT_S_MAX))).messages)

    def backwards(self, number: int | None = None) -> Iterator[Message]:
        """Messages from `number` down to the first; from the last one where no number is given."""
        shown = self._shown()
        if number is not None and number < shown.first:
            raise NumberRetired(number, shown.first)
        following = shown.end - 1 if number is None else number
        while following >= shown.first:
            values = {
                "topic": str(self._topic.name),
                "positions": position_values({self._partition: following}),
                "limit": BACKWARDS_STEP,
                "is_backwards": True,
            }
            answer = self._topic.store.calls.call(OwnKey.READ, values, repeat=same)
            yield from messages_of(answer.messages, self._topic.name)
            following = positions_of(answer.positions)[self._partition]

    def last(self, count: int = 1) -> list[Message]:
        """The last `count` messages, in order."""
        if count <= 0:
            return []
        shown = self._shown()
        return self.read(max(shown.first, shown.end - count), limit=count)

    def find_time(self, when: datetime | float | int) -> int:
        """The number of the first message at or after `when`; `end` where there is none."""
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
        """The messages from `start` up to `end`, from `since` up to `until`, that pass the filter, as Arrow."""
        shown = self._shown()
        start = shown.first if start is None else start
        end = shown.end if end is None else min(end, shown.end)
        if since is not None:
            start = max(start, self.find_time(since))
        if until is not None:
            end = min(end, self.find_time(until))
        values = {
            "topic": str(self._topic.name),
            "partition": self._partition,
            "end": end,
            "columns": columns,
            "tag": tag,
            "rows_min": rows_min,
            "skips": skips,
        }
        return self._scanned(start, end, values)

    def _scanned(self, start: int, end: int, values: dict[str, Any]) -> Iterator[pyarrow.RecordBatch]:
        """Answer after answer; while one is used, the broker makes the next ones, of as many numbers as the last."""
        import pyarrow

        calls, following, count = self._topic.store.calls, start, end - start
        asked: deque[tuple[int, int, Steps[Fields]]] = deque()

        def ask() -> None:
            nonlocal following
            while following < end and len(asked) < SCANS_AHEAD:
                stop = min(end, following + count)
                steps = calls.calling(
                    OwnKey.SCAN, {**values, "start": following, "end": stop}, wait_s=SEND_AHEAD_S, repeat=same
                )
                next(steps)
                asked.append((following, stop, steps))
                following = stop

        ask()
        while asked:
            begun, stop, steps = asked.popleft()
            answer = run(steps)
            if answer.next < stop and not asked:
                stop = following = answer.next
                count = max(1, following - begun)
            ask()
            while True:
                if answer.arrow:
                    yield from pyarrow.ipc.open_stream(aligned_buffer(answer.arrow))
                if answer.next >= stop:
                    break
                # Larger messages than before: what did not fit comes before what was asked for already.
                answer = calls.call(OwnKey.SCAN, {**values, "start": answer.next, "end": stop}, repeat=same)

    def __repr__(self) -> str:
        return f"<RemoteLog {self._partition} of {self._topic.name} at {self._topic.store.calls.address}>"
