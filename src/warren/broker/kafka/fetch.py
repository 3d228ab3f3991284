"""Fetch: sends batches as they are in the file, up to the bytes that the client accepts; waits if there are too few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.metadata import epoch_code
from warren.broker.kafka.partition_rows import last_of_each, pieces_of
from warren.broker.net.request import Answer, Call, DeferredReply, WaitingReply
from warren.broker.security.peer import Peer
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.leadership import NO_NODE
from warren.broker.services.long_polls import PollResult
from warren.broker.services.memory_budget import Hold, MemoryKind
from warren.broker.services.topics import NotOpenYet
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.errors import NeedsMemory, NoSuchTopic, NumberRetired, WarrenError
from warren.protocol.kafka.fetch import FetchPartition as AskedPartition
from warren.protocol.kafka.fetch import FetchTopic, PartitionFetched, TopicFetched, decode_fetch, encode_fetch_response
from warren.protocol.kafka.record_batch import build
from warren.protocol.kafka.topic_reference import TOPIC_IDS_FROM
from warren.protocol.primitives import Buffer
from warren.storage import Log
from warren.storage.format.kafka_batch import numbered
from warren.storage.read.raw_records import ChecksMore

LOOP_BUILT_MAX: Final = 1_000
"""Up to this number of messages of our own clients are packed into a Kafka batch on the event loop."""
LOOP_READ_SIZE_MAX: Final = 4 << 20
"""On the event loop a partition is read only if at most this many bytes have to be packed, and as many checked."""
BUILT_SIZE_TARGET: Final = 4 << 20
"""About how many bytes of messages are packed into one batch, because packing holds the interpreter."""

LOGS_FETCHED_MAX: Final = 4_096
"""A connection remembers for so many logs how far it has fetched. If there are more, it forgets all of them."""
UNKNOWN_END: Final = -1
TIME_STEP_S: Final = 0.001
"""The resolution of the event loop's clock."""


class PartitionRead(NamedTuple):
    """One partition of the request; it has an error instead of a log if it cannot be read."""

    partition: int
    number: int
    size_max: int
    log: Log | None = None
    error: Code = Code.NONE
    is_checked: bool = False
    """Whether to check that the first batch can be read, and to continue after it if not."""
    batch_epoch: int | None = None
    """The epoch that the batches of the answer name; None for that which they were stored with."""
    preferred: int = NO_NODE
    """The broker that the consumer shall read from instead."""


class TopicRead(NamedTuple):
    """The partitions of one topic in a request."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionRead]


class Fetched(NamedTuple):
    """The answers of one attempt, and how many bytes of messages they hold.

    `is_urgent`: one of them cannot wait, because it is an error, or names another broker. What is to come can wait.
    """

    topics: list[TopicFetched]
    size: int
    is_urgent: bool

    @property
    def is_failed(self) -> bool:
        return self.is_urgent and any(part.error_code for topic in self.topics for part in topic.partitions)


def fetch(call: Call) -> Answer | DeferredReply:
    """Returns messages from given numbers on. Waits if there are fewer bytes than the client's minimum."""
    request = decode_fetch(call.version, call.request.body)
    size_max = min(request.max_bytes, call.broker.limits.fetch_size_max)
    if call.broker.quotas.is_set:
        size_max = call.broker.quotas.answer_size_max(call.peer.user, call.request.client_id or "", size_max)
    wait_s = min(request.max_wait_ms / 1000, call.broker.limits.fetch_wait_s_max)
    rows: Sequence[FetchTopic] = request.topics
    if request.rack:
        rows = [topic._replace(rack=request.rack) for topic in rows]
    if sum(len(topic.partitions) for topic in rows) > 1:
        rows = last_of_each(rows)
        if sum(len(topic.partitions) for topic in rows) > LOOP_ROWS_AT_ONCE:
            return _fetch_in_turns(call, rows, (request.min_bytes, size_max), wait_s)
    try:
        reads = [_topic_read(call, topic) for topic in rows]
    except NotOpenYet:
        return _fetch_in_turns(call, rows, (request.min_bytes, size_max), wait_s)
    try:
        fetched = _fetched(call.peer, reads, call.broker.budget.answer_size_max(size_max))
    except _NeedsCheck:
        return _parked(call, rows, reads, (request.min_bytes, size_max), wait_s, begins_with_check=True)
    except _TakesLong:
        return _fetch_in_turns(call, rows, (request.min_bytes, size_max), wait_s)
    if _is_enough(call, fetched, request.min_bytes, wait_s):
        return _answer(call, fetched)
    return _parked(call, rows, reads, (request.min_bytes, size_max), wait_s)


def _is_enough(call: Call, fetched: Fetched, size_min: int, left_s: float) -> bool:
    """Returns whether to answer now: there are enough bytes or an error, no time is left, or the broker stops."""
    return fetched.size >= size_min or fetched.is_urgent or left_s < TIME_STEP_S or call.broker.is_stopping


def _answer(call: Call, fetched: Fetched) -> Answer:
    topics = _under_lease(call, fetched.topics)
    if fetched.is_failed or topics is not fetched.topics:
        call.broker.metrics.failed(call.request.api_key)
    return encode_fetch_response(call.version, topics)


def _under_lease(call: Call, topics: list[TopicFetched]) -> list[TopicFetched]:
    """Returns the answers without what a broker may say only if no other one leads: where a log ends.

    Messages may be given. A partition without messages is refused, because an empty answer says that its end has been
    reached; and a number behind the end may be one that the next master has.
    """
    if call.broker.leadership.refusal_of_ends() is None:
        return topics
    return [topic._replace(partitions=[_without_end(part) for part in topic.partitions]) for topic in topics]


def _without_end(part: PartitionFetched) -> PartitionFetched:
    if part.records:
        return part._replace(high_watermark=UNKNOWN_END, last_stable_offset=UNKNOWN_END)
    if part.error_code in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
        return PartitionFetched(part.partition, Code.NOT_LEADER_OR_FOLLOWER)
    return part


def _parked(
    call: Call,
    rows: Sequence[FetchTopic],
    reads: Sequence[TopicRead],
    sizes: tuple[int, int],
    wait_s: float,
    *,
    begins_with_check: bool = False,
) -> DeferredReply:
    """Answers when there is enough data or the time is over. First a thread checks the batches that need a check.

    This does what `long_polls.until` does, but by callbacks instead of a task, because most consumers wait most of the
    time. Measured: one wait takes 26 µs, and 38 µs by `until` in a task. Both ways use `_is_enough`.
    """
    loop, long_polls = asyncio.get_running_loop(), call.broker.long_polls
    later, (size_min, size_max) = WaitingReply(), sizes
    deadline = loop.time() + wait_s
    logs, parts = [part.log for topic in reads for part in topic.partitions if part.log is not None], list(reads)

    def attempt() -> None:
        if later.is_dropped:
            return
        try:
            fetched = _fetched(call.peer, _still_allowed(call, parts), call.broker.budget.answer_size_max(size_max))
            left_s = deadline - loop.time()
            if _is_enough(call, fetched, size_min, left_s):
                answer: Answer | BaseException = _answer(call, fetched)
            else:
                later.rung = long_polls.park(logs, left_s, attempt)
                return
        except _NeedsCheck:
            check()
            return
        except _TakesLong:
            call.broker.tasks.create_task(_work(call, later, rows, sizes, deadline))
            return
        except Exception as error:  # noqa: BLE001  # The waiting request gets it.
            answer = error
        later.on_done(answer)

    def check() -> None:
        later.rung = loop.create_future()
        call.broker.tasks.create_task(_check_first(call, later, parts, attempt))

    if begins_with_check:
        check()
    else:
        later.rung = long_polls.park(logs, wait_s, attempt)
    return later


# --- Many partitions, or much to do for one ---


class _TakesLong(Exception):
    """So much has to be checked, or packed into batches, that other requests would wait too long."""


class _NeedsCheck(Exception):
    """Raised if the first batch of a partition must be checked on a thread."""


def _fetch_in_turns(call: Call, rows: Sequence[FetchTopic], sizes: tuple[int, int], wait_s: float) -> DeferredReply:
    """Does what `fetch` does, but other requests run in between. `sizes` are the least and the most bytes."""
    loop, later = asyncio.get_running_loop(), WaitingReply()
    later.rung = loop.create_future()
    call.broker.tasks.create_task(_work(call, later, rows, sizes, loop.time() + wait_s))
    return later


async def _work(
    call: Call, later: WaitingReply, rows: Sequence[FetchTopic], sizes: tuple[int, int], deadline: float
) -> None:
    broker, loop, (size_min, size_max) = call.broker, asyncio.get_running_loop(), sizes
    answer: Answer | BaseException = None
    hold = broker.budget.hold(MemoryKind.ANSWERS, 0, call.peer.owner)
    try:
        # A topic of many partitions is read in pieces, which `_fetched_in_turns` joins in the answer.
        pieces = list(pieces_of(rows))
        reads = [(place, await _opened_read(call, piece)) async for place, piece in broker.turns.over(pieces)]
        logs = [part.log for _, topic in reads for part in topic.partitions if part.log is not None]

        async def attempt(is_rung: bool) -> PollResult[Fetched]:
            fetched = await _fetched_in_turns(call, rows, reads, size_max, hold)
            is_done = _is_enough(call, fetched, size_min, deadline - loop.time()) or later.is_dropped
            if not is_done:
                hold.release()
            return PollResult(fetched, is_done)

        def waits(woken: asyncio.Future[bool]) -> None:
            later.rung = woken

        def resumes() -> None:
            nonlocal reads
            allowed = _still_allowed(call, [topic for _, topic in reads])
            reads = [(place, topic) for (place, _), topic in zip(reads, allowed, strict=True)]

        fetched = await broker.long_polls.until(
            attempt, lambda: logs, deadline - TIME_STEP_S, waits=waits, resumes=resumes
        )
        if not later.is_dropped:
            topics = _under_lease(call, fetched.topics)
            answer = await broker.aside(encode_fetch_response, call.version, topics)
            if fetched.is_failed or topics is not fetched.topics:
                broker.metrics.failed(call.request.api_key)
    except Exception as error:  # noqa: BLE001  # The connection gets it.
        answer = error
    # The connection counts the answer from here on, and no other request runs between these two steps.
    hold.release()
    if not later.is_dropped:
        later.on_done(answer)


async def _fetched_in_turns(
    call: Call, rows: Sequence[FetchTopic], reads: Sequence[tuple[int, TopicRead]], size_max: int, hold: Hold
) -> Fetched:
    """Returns the messages of all topics. `hold` counts them, so that answers built at the same time get less room."""
    limit = 0
    parts: list[list[PartitionFetched]] = [[] for _ in rows]
    size, is_urgent = 0, False
    async for place, topic in call.broker.turns.over(reads):
        if any(part.is_checked for part in topic.partitions):
            topic = await _checked(call, topic)
        if not size:
            limit = call.broker.budget.answer_size_max(size_max)
        try:
            fetched = _fetched(call.peer, [topic], limit, size)
        except _TakesLong:
            hold.resize(limit)
            fetched = await call.broker.aside(_fetched, call.peer, [topic], limit, size, is_bounded=False)
        size, is_urgent = fetched.size, is_urgent or fetched.is_urgent
        hold.resize(size)
        parts[place] += fetched.topics[0].partitions
    topics = [TopicFetched(topic.name, topic.topic_id, part) for topic, part in zip(rows, parts, strict=True)]
    return Fetched(topics, size, is_urgent)


async def _check_first(call: Call, later: WaitingReply, parts: list[TopicRead], go_on: Callable[[], None]) -> None:
    """Checks the first batches of the request, and calls `go_on`, which builds the answer on the event loop.

    So each answer is counted in the memory budget before the next one is made.
    """
    try:
        parts[:] = [await _checked(call, topic) for topic in parts]
    except Exception as error:  # noqa: BLE001  # The waiting request gets it.
        if not later.is_dropped:
            later.on_done(error)
    else:
        go_on()


async def _checked(call: Call, topic: TopicRead) -> TopicRead:
    """Returns the request with each start moved after the batches that no reader can unpack."""
    parts = []
    for part in topic.partitions:
        number = part.number
        if part.log is not None and part.is_checked and part.log.first <= number < part.log.end:
            find = partial(_first_readable, part.log, number)
            number, hold = await call.broker.read_memory.run(call.peer.owner, lambda: call.peer.is_gone, find)
            if hold is not None:
                hold.release()
        parts.append(part._replace(number=number, is_checked=False))
    return topic._replace(partitions=parts)


def _first_readable(log: Log, number: int) -> int:
    """Returns the number after the batches at `number` that no reader can unpack, and counts those batches."""
    try:
        page = log.page(number, None, limit=1)
        return page.messages[0].number if page.messages else page.next_number
    except NeedsMemory:
        raise
    except WarrenError:
        # The fetch finds the same error, and answers with it.
        return number


# --- The request ---


def _still_allowed(call: Call, reads: Sequence[TopicRead]) -> Sequence[TopicRead]:
    """Returns the request, with errors for topics whose right was removed since: a fetch may wait for a long time."""
    if call.broker.rights is None:
        return reads
    return [
        topic
        if call.may(Operation.READ, ResourceKind.TOPIC, topic.name or _name_of(call, topic.topic_id))
        else topic._replace(
            partitions=[part._replace(log=None, error=Code.TOPIC_AUTHORIZATION_FAILED) for part in topic.partitions]
        )
        for topic in reads
    ]


def _name_of(call: Call, topic_id: bytes) -> str:
    try:
        return str(call.broker.topics.recall_by_id(topic_id).name)
    except (WarrenError, NotOpenYet):
        return ""


async def _opened_read(call: Call, row: FetchTopic) -> TopicRead:
    """Does what `_topic_read` does. If this process has not opened the topic yet, a thread opens it."""
    while True:
        try:
            return _topic_read(call, row)
        except NotOpenYet as closed:
            try:
                await call.broker.opened_topic(closed.name)
            except WarrenError as error:
                return TopicRead(row.name, row.topic_id, [_not_there(part, code_of(error)) for part in row.partitions])


def _topic_read(call: Call, row: FetchTopic) -> TopicRead:
    is_by_id = call.version >= TOPIC_IDS_FROM
    name, topic_id = row.name, row.topic_id
    topics, leadership = call.broker.topics, call.broker.leadership
    batch_epoch = leadership.batch_epoch
    try:
        topic = topics.recall_by_id(topic_id) if is_by_id else topics.recall(name)
    except NoSuchTopic:
        code = Code.UNKNOWN_TOPIC_ID if is_by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
        return TopicRead(name, topic_id, [_not_there(part, code) for part in row.partitions])
    except WarrenError as error:
        return TopicRead(name, topic_id, [_not_there(part, code_of(error)) for part in row.partitions])
    if not call.may(Operation.READ, ResourceKind.TOPIC, topic.name):
        call.denied(Operation.READ, ResourceKind.TOPIC, str(topic.name))
        refused = [_not_there(part, Code.TOPIC_AUTHORIZATION_FAILED) for part in row.partitions]
        return TopicRead(name, topic_id, refused)
    parts, fetched_to = [], call.peer.fetched_to
    if len(fetched_to) > LOGS_FETCHED_MAX:
        fetched_to.clear()
    for part in row.partitions:
        try:
            if part.partition >= topic.partition_count:
                topic.see_partitions()
            log = topic.partition(part.partition)
            code = epoch_code(leadership, part.leader_epoch)
            if code:
                parts.append(_not_there(part, code))
                continue
            number, size_max, preferred = part.fetch_offset, part.bytes_max, NO_NODE
            if row.rack and (near := leadership.near(row.rack)):
                preferred = near[part.partition % len(near)].id
            # The consumer does not continue after the last answer: it could not read it, or it begins or has moved.
            is_checked = preferred == NO_NODE and fetched_to.get(id(log)) != number
            parts.append(
                PartitionRead(part.partition, number, size_max, log, Code.NONE, is_checked, batch_epoch, preferred)
            )
        except WarrenError as error:
            parts.append(_not_there(part, code_of(error)))
    return TopicRead(name, topic_id, parts)


def _not_there(part: AskedPartition, code: Code) -> PartitionRead:
    return PartitionRead(part.partition, part.fetch_offset, 0, None, code)


def _fetched(
    peer: Peer, reads: Sequence[TopicRead], size_max: int, size: int = 0, *, is_bounded: bool = True
) -> Fetched:
    """Returns the messages that are there now, after `size` bytes that were read before.

    Raises _NeedsCheck if a batch has to be checked. If it is bounded, it raises _TakesLong instead of doing what would
    hold up the event loop.
    """
    topics, is_urgent = [], False
    for topic in reads:
        parts = []
        for part in topic.partitions:
            room = min(part.size_max, size_max - size)
            partition_fetched = _partition(peer, part, room, is_first=not size, is_bounded=is_bounded)
            size += partition_fetched.size
            is_urgent = is_urgent or _cannot_wait(partition_fetched)
            parts.append(partition_fetched)
        topics.append(TopicFetched(topic.name, topic.topic_id, parts))
    return Fetched(topics, size, is_urgent)


def _cannot_wait(fetched: PartitionFetched) -> bool:
    return fetched.preferred != NO_NODE or fetched.error_code not in (Code.NONE, Code.OFFSET_NOT_AVAILABLE)


def _partition(peer: Peer, part: PartitionRead, size_max: int, *, is_first: bool, is_bounded: bool) -> PartitionFetched:
    log = part.log
    if log is None:
        return PartitionFetched(part.partition, part.error)
    try:
        first, end = log.first, log.end
        if not first <= part.number <= end:
            # A slave has messages that it may not show yet. The consumer has read the one before this at the master.
            is_coming = end < part.number <= log.tail
            code = Code.OFFSET_NOT_AVAILABLE if is_coming else Code.OFFSET_OUT_OF_RANGE
            return PartitionFetched(part.partition, code, end, end, first)
        if part.preferred != NO_NODE:
            return PartitionFetched(part.partition, Code.NONE, end, end, first, preferred=part.preferred)
        records: list[Buffer] = []
        # The first batch is sent at any size, because otherwise a client with a small limit would never get it.
        if part.number < end and (size_max > 0 or is_first):
            records, following = _batches(log, part, max(size_max, 1), is_bounded=is_bounded)
            if records:
                peer.fetched_to[id(log)] = following
        return PartitionFetched(part.partition, Code.NONE, end, end, first, records, sum(map(len, records)))
    except NumberRetired as error:
        return PartitionFetched(part.partition, Code.OFFSET_OUT_OF_RANGE, log.end, log.end, error.first)
    except WarrenError as error:
        return PartitionFetched(part.partition, code_of(error))


def _batches(log: Log, part: PartitionRead, size_max: int, *, is_bounded: bool) -> tuple[list[Buffer], int]:
    """Returns Kafka batches as they are stored, and packs other records into batches; and the number after them."""
    if part.is_checked:
        raise _NeedsCheck
    buffers: list[Buffer] = []
    number = following = part.number
    built_count = built_size = 0
    try:
        runs = log.stored(number, bytes_max=size_max, checked_max=LOOP_READ_SIZE_MAX if is_bounded else None)
    except ChecksMore as error:
        raise _TakesLong from error
    for stored in runs:
        following = stored.number + stored.message_count
        if stored.batch is not None:
            buffers += numbered(stored.batch, stored.number, part.batch_epoch)
        else:
            start = max(stored.number, number)
            built_count, built_size = built_count + following - start, built_size + stored.size
            if is_bounded and (built_count > LOOP_BUILT_MAX or built_size > LOOP_READ_SIZE_MAX):
                raise _TakesLong
            while start < following:
                page = log.page(start, None, limit=following - start, bytes_max=BUILT_SIZE_TARGET)
                if not page.messages:
                    break
                buffers += build(page.messages, part.batch_epoch)
                start = page.next_number
    return buffers, following
