"""Read, FindTime and Scan: messages by number, time and tag, as messages or as Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from warren.broker.call import Call
from warren.broker.own.answering import awaited, limit_of, wait_of
from warren.broker.own.arrow_stream import stream_of
from warren.config import ANSWER_SIZE_MAX, OWN_ANSWER_SIZE_TARGET, SCANNED_SIZE_MAX
from warren.errors import BadInput, FellBehind, MessageTooLarge, NumberRetired
from warren.message import Message
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import position_values, positions_of
from warren.protocol.own_arrow import scan_padding
from warren.protocol.own_records import carried
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    import pyarrow

BACKWARDS_MAX: Final = 256
NO_END: Final = -1
SCAN_PIECE_SIZE_MAX: Final = 2 * OWN_ANSWER_SIZE_TARGET
"""A record batch of more bytes is cut, so that an answer of a scan does not become too large for its client."""
SCAN_OVERHEAD_MAX: Final = 256 << 10
"""What an Arrow stream has beside the bytes of its columns, at most."""


def size_of(call: Call, asked: Fields) -> int:
    """About how many bytes of bodies an answer holds: fewer while clients do not take their answers."""
    if asked.bytes_max < 0:
        raise BadInput(f"bytes_max {asked.bytes_max}: expected 0 or more, 0 for as many as there may be")
    return call.broker.budget.answer_size_max(min(asked.bytes_max or OWN_ANSWER_SIZE_TARGET, OWN_ANSWER_SIZE_TARGET))


async def read(call: Call, asked: Fields) -> Values:
    """Messages of some partitions from given numbers on that pass the filter, and the numbers to go on from.

    Waits if there is none. Backwards: from the number down, without a wait. By a thread, because messages are unpacked
    and filtered; one look goes through SCANNED_SIZE_MAX bytes at most, and the answer says how far it got.
    """
    topic = await call.broker.opened_topic(asked.topic)
    positions = positions_of(asked.positions)
    limit, size, wait_s = limit_of(asked), size_of(call, asked), wait_of(asked)
    for partition, number in positions.items():
        topic.partition(partition)
        if number < 0:
            raise BadInput(f"number {number}: expected 0 or more")
    tag = None if asked.tag is None else TagFilter.parse(asked.tag)
    if asked.is_backwards:
        return await call.broker.in_thread(_backwards, topic, positions, min(limit, BACKWARDS_MAX), size, tag)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_s

    async def attempt(is_rung: bool) -> Values | None:
        while True:
            found = await call.broker.in_thread(_looked, topic, positions, limit, size, tag)
            # A request that waits goes on while there is more to look through: nothing would wake it.
            if found or not _is_more(topic, positions) or loop.time() >= deadline_s or call.broker.is_stopping:
                return found

    logs = [topic.partition(number) for number in positions]
    # A log tells of everything that a read could find: there is nothing to look for in between.
    found = await awaited(call, asked, wait_s, lambda: logs, attempt, look_s=lambda: wait_s)
    return found or _answer(topic, [], positions)


def _looked(topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None) -> Values | None:
    messages = _read(topic, positions, limit, size, tag)
    return _answer(topic, messages, positions) if messages else None


def _read(topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None) -> list[Message]:
    """Messages from where the positions say; the positions move behind them, and behind what was left out."""
    messages: list[Message] = []
    scanned_max = SCANNED_SIZE_MAX
    for partition, number in positions.items():
        log = topic.partition(partition)
        try:
            page = log.page(number, tag, limit=limit, bytes_max=size, scanned_max=scanned_max)
        except NumberRetired as error:
            raise FellBehind(str(topic.name), partition, error.number, error.first) from error
        found = page.messages
        positions[partition] = max(number, page.next_number)
        messages += found
        limit, size = limit - len(found), size - sum(len(message.body) for message in found)
        scanned_max -= page.scanned
        if limit <= 0 or size <= 0 or scanned_max <= 0:
            break
    return messages


def _backwards(topic: Topic, positions: dict[int, int], limit: int, size: int, tag: TagFilter | None) -> Values:
    """Up to `limit` messages from the number down, of about `size` bytes, without those that the filter leaves out."""
    ((partition, number),) = list(positions.items())[:1] or [(0, 0)]
    log = topic.partition(partition)
    found: list[Message] = []
    following = min(number, log.end - 1)
    if number >= log.first:
        for message in islice(log.backwards(number), limit):
            following = message.number - 1
            if tag is None or tag.matches(message.tag):
                found.append(message)
                size -= len(message.body)
                if size <= 0:
                    break
    return _answer(topic, found, {partition: following})


def _is_more(topic: Topic, positions: dict[int, int]) -> bool:
    return any(number < topic.partition(partition).end for partition, number in positions.items())


def _answer(topic: Topic, messages: list[Message], positions: dict[int, int]) -> Values:
    values, count = carried(messages)
    for left in reversed(messages[count:]):
        positions[left.partition] = left.number
    return {
        "messages": values,
        "positions": position_values(positions),
        "partition_count": topic.partition_count,
        "is_more": _is_more(topic, positions),
    }


async def find_time(call: Call, asked: Fields) -> Values:
    """In each partition the number of the first message at or after a time; its end where there is none."""
    topic = await call.broker.opened_topic(asked.topic)
    found = await call.broker.in_thread(lambda: {n: log.find_time(asked.time) for n, log in enumerate(topic.logs)})
    return {"positions": position_values(found)}


async def scan(call: Call, asked: Fields) -> Values:
    """Messages of a partition as an Arrow stream, about as many bytes as were asked for; the number to go on from."""
    log = (await call.broker.opened_topic(asked.topic)).partition(asked.partition)
    return await call.broker.in_thread(_scanned, log, asked, size_of(call, asked))


def _pieces(batch: pyarrow.RecordBatch, size_max: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a batch in pieces of `size_max` bytes at most, or of one row each."""
    if batch.nbytes <= size_max or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _pieces(batch.slice(0, middle), size_max)
    yield from _pieces(batch.slice(middle), size_max)


def _scanned(log: Log, asked: Fields, size_max: int) -> Values:

    end = log.end if asked.end == NO_END else min(asked.end, log.end)
    start = log.first if asked.start == NO_END else asked.start
    # The number tells how far an answer goes, so it is read whether it was asked for or not.
    wanted = asked.columns
    columns = None if wanted is None else [*wanted, *({"number"} - set(wanted))]
    batches: list[pyarrow.RecordBatch] = []
    size, following = 0, end
    scanned = log.scan(start, end, columns=columns, tag=asked.tag, rows_min=max(1, asked.rows_min), skips=asked.skips)
    for batch in (piece for whole in scanned for piece in _pieces(whole, SCAN_PIECE_SIZE_MAX)):
        if size + batch.nbytes > ANSWER_SIZE_MAX - SCAN_OVERHEAD_MAX:
            number = batch.column("number")[0].as_py()
            if not batches:
                reason = f"{batch.nbytes} bytes with all columns that are asked for"
                raise MessageTooLarge(asked.topic, asked.partition, number, 0, reason)
            following = number
            break
        batches.append(batch)
        size += batch.nbytes
        if size >= size_max:
            following = batch.column("number")[-1].as_py() + 1
            break
    if wanted is not None:
        batches = [batch.select(wanted) for batch in batches]
    arrow = stream_of(batches)
    return {"next": following, "padding": scan_padding(sum(map(len, arrow))), "arrow": arrow}
