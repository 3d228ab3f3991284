"""Read, FindTime and Scan: messages by number, time and tag, as messages or as Arrow. FindReplicas: where else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from warren.broker.native.call import Call
from warren.broker.native.handler import awaited, checked_limit, in_memory, wait_of
from warren.broker.native.limits import NATIVE_ANSWER_SIZE_TARGET
from warren.broker.services.turns import SCANNED_SIZE_MAX
from warren.errors import BadInput, FellBehind, MessageTooLarge, NeedsMemory, NumberRetired
from warren.message import Message
from warren.protocol.limits import ANSWER_SIZE_MAX
from warren.protocol.native.arrow import scan_padding
from warren.protocol.native.calls import positions_of, wire_positions
from warren.protocol.native.records import carried
from warren.protocol.native_messages import (
    FindReplicasRequest,
    FindReplicasResponse,
    FindTimeRequest,
    FindTimeResponse,
    ReadRequest,
    ReadResponse,
    ScanRequest,
    ScanResponse,
)
from warren.protocol.primitives import Buffer
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.format.tags import TagFilter

if TYPE_CHECKING:
    import pyarrow

BACKWARDS_MAX: Final = 256
NO_END: Final = -1
NOTHING_BELOW: Final = -1
"""The position after a read backwards that has reached the first message."""
SCAN_PIECE_SIZE_MAX: Final = 2 * NATIVE_ANSWER_SIZE_TARGET
"""A record batch of more bytes is cut, so that an answer of a scan does not become too large for its client."""
SCAN_OVERHEAD_MAX: Final = 256 << 10
"""How many bytes an Arrow stream has at most besides those of its columns."""


def size_of(call: Call, bytes_max: int) -> int:
    """Returns about how many bytes of bodies an answer may hold: fewer while clients do not read their answers."""
    if bytes_max < 0:
        raise BadInput(f"bytes_max {bytes_max}: expected 0 or more, 0 for as many as there may be")
    return call.broker.budget.answer_size_max(min(bytes_max or NATIVE_ANSWER_SIZE_TARGET, NATIVE_ANSWER_SIZE_TARGET))


async def read(call: Call, request: ReadRequest) -> ReadResponse:
    """Returns messages that match the filter, from the positions on, and the positions to continue from.

    Waits if there is none. Backwards: from the position down, without a wait. On a thread, because messages are
    unpacked and filtered. One step scans at most SCANNED_SIZE_MAX bytes, and the answer says how far it got.
    """
    topic = await call.broker.opened_topic(request.topic)
    positions = positions_of(request.positions)
    limit, size, wait_s = checked_limit(request.limit), size_of(call, request.bytes_max), wait_of(request)
    for partition, number in positions.items():
        topic.partition(partition)
        if number < 0:
            raise BadInput(f"number {number}: expected 0 or more")
    tag = None if request.tag is None else TagFilter.parse(request.tag)
    if request.is_backwards:
        return await in_memory(call, _backwards, topic, positions, min(limit, BACKWARDS_MAX), size, tag)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_s

    async def attempt(is_rung: bool) -> ReadResponse | None:
        while True:
            answer = await in_memory(call, _read_once, topic, positions, limit, size, tag)
            # A waiting request continues while there is more to scan, because nothing would wake it.
            if answer or not _is_more(topic, positions) or loop.time() >= deadline_s or call.broker.is_stopping:
                return answer

    logs = [topic.partition(number) for number in positions]
    # The logs announce all that a read could find, so it need not poll.
    answer = await awaited(call, request, wait_s, lambda: logs, attempt, poll_s=None)
    return answer or _answer(topic, [], positions)


def _read_once(
    topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None
) -> ReadResponse | None:
    messages = _read(topic, positions, limit, size, tag)
    return _answer(topic, messages, positions) if messages else None


def _read(topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None) -> list[Message]:
    """Returns messages from the positions on. Moves the positions past all messages that it has scanned."""
    messages: list[Message] = []
    scanned_max = SCANNED_SIZE_MAX
    for partition, number in positions.items():
        log = topic.partition(partition)
        try:
            page = log.page(number, tag, limit=limit, bytes_max=size, scanned_max=scanned_max)
        except NumberRetired as error:
            raise FellBehind(str(topic.name), partition, error.number, error.first) from error
        except NeedsMemory:
            # The positions have moved past the messages of other partitions, so these are returned first.
            if messages:
                break
            raise
        page_messages = page.messages
        positions[partition] = max(number, page.next_number)
        messages += page_messages
        limit, size = limit - len(page_messages), size - sum(len(message.body) for message in page_messages)
        scanned_max -= page.scanned
        if limit <= 0 or size <= 0 or scanned_max <= 0:
            break
    return messages


def _backwards(topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None) -> ReadResponse:
    """Returns up to `limit` messages from the number down, of about `size` bytes, that match the filter.

    The position to continue from is NOTHING_BELOW once no message is left, even if the lowest numbers are in batches
    that cannot be read, or were retired: a client that continues from there would ask without end.
    """
    ((partition, number),) = list(positions.items())[:1] or [(0, 0)]
    log = topic.partition(partition)
    messages: list[Message] = []
    following = NOTHING_BELOW
    if number >= log.first:
        for count, message in enumerate(log.backwards(number), 1):
            if tag is None or tag.matches(message.tag):
                messages.append(message)
                size -= len(message.body)
            if size <= 0 or count >= limit:
                following = message.number - 1
                break
    return _answer(topic, messages, {partition: following})


def _is_more(topic: Topic, positions: dict[int, int]) -> bool:
    return any(number < topic.partition(partition).end for partition, number in positions.items())


def _answer(topic: Topic, messages: list[Message], positions: dict[int, int]) -> ReadResponse:
    sent, count = carried(messages)
    for message in reversed(messages[count:]):
        positions[message.partition] = message.number
    return ReadResponse(
        messages=sent,
        positions=wire_positions(positions),
        partition_count=topic.partition_count,
        is_more=_is_more(topic, positions),
    )


async def find_time(call: Call, request: FindTimeRequest) -> FindTimeResponse:
    """Returns, by partition, the number of the first message at or after a time; the end if there is none."""
    topic = await call.broker.opened_topic(request.topic)
    numbers = await call.broker.in_thread(lambda: {n: log.find_time(request.time) for n, log in enumerate(topic.logs)})
    return FindTimeResponse(positions=wire_positions(numbers))


def find_replicas(call: Call, request: FindReplicasRequest) -> FindReplicasResponse:
    """Returns the in-sync replicas that clients in a rack shall read from; none if this broker stands there itself."""
    near = call.broker.leadership.near(request.rack)
    return FindReplicasResponse(store_id=call.broker.store.id, addresses=[node.address for node in near])


async def scan(call: Call, request: ScanRequest) -> ScanResponse:
    """Returns messages of a partition as an Arrow stream of about the requested size, and the next number."""
    log = (await call.broker.opened_topic(request.topic)).partition(request.partition)
    return await in_memory(call, _scanned, log, request, size_of(call, request.bytes_max))


def _pieces(batch: pyarrow.RecordBatch) -> Sequence[tuple[pyarrow.RecordBatch, int]]:
    """Returns the rows of a batch in pieces of SCAN_PIECE_SIZE_MAX bytes at most, or of one row each, and their sizes.

    The size is returned because PyArrow adds it up at each call, which takes 6 µs: a quarter of the time that a scan
    needs for the rest of its work on a batch of 1,000 rows.
    """
    size: int = batch.nbytes
    if size <= SCAN_PIECE_SIZE_MAX or batch.num_rows == 1:
        return ((batch, size),)
    middle = batch.num_rows // 2
    return (*_pieces(batch.slice(0, middle)), *_pieces(batch.slice(middle)))


def _scanned(log: Log, request: ScanRequest, size_max: int) -> ScanResponse:
    end = log.end if request.end == NO_END else min(request.end, log.end)
    start = log.first if request.start == NO_END else request.start
    # The numbers say how far an answer goes, so they are read even if the request does not name them.
    names = request.columns
    columns = None if names is None else [*names, *({"number"} - set(names))]
    batches: list[pyarrow.RecordBatch] = []
    size, following = 0, end
    scanned = log.scan(
        start, end, columns=columns, tag=request.tag, rows_min=max(1, request.rows_min), skips=request.skips
    )
    for batch, batch_size in chain.from_iterable(map(_pieces, scanned)):
        if size + batch_size > ANSWER_SIZE_MAX - SCAN_OVERHEAD_MAX:
            number = batch.column("number")[0].as_py()
            if not batches:
                reason = f"{batch_size} bytes with all requested columns"
                raise MessageTooLarge(request.topic, request.partition, number, 0, reason)
            following = number
            break
        batches.append(batch)
        size += batch_size
        if size >= size_max:
            following = batch.column("number")[-1].as_py() + 1
            break
    if names is not None:
        batches = [batch.select(names) for batch in batches]
    arrow = stream_of(batches)
    return ScanResponse(next=following, padding=scan_padding(sum(map(len, arrow))), arrow=arrow)


# --- Arrow streams ---


class BufferSink:
    """A file for PyArrow to write to. It keeps PyArrow's buffers, and copies the few bytes between them."""

    closed = False

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def write(self, data: bytes | pyarrow.Buffer) -> int:
        if not isinstance(data, bytes):
            self.buffers.append(memoryview(data))
        elif self.buffers and isinstance(self.buffers[-1], bytearray):
            self.buffers[-1] += data
        else:
            self.buffers.append(bytearray(data))
        return len(data)

    def flush(self) -> None:
        """Does nothing, because nothing is buffered."""

    def close(self) -> None:
        """Does nothing, because nothing is open."""


def stream_of(batches: Sequence[pyarrow.RecordBatch]) -> list[Buffer]:
    """Returns the batches as an Arrow stream in consecutive buffers, without a copy; none if there is no batch."""
    # Imported here, because importing PyArrow takes longer than opening a log.
    import pyarrow

    pieces = BufferSink()
    if batches:
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(pieces, mode="w"), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return pieces.buffers
