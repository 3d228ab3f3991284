"""Messages over HTTP: put them, read them by number, time and tag, and their form as JSON."""

from __future__ import annotations

import base64
import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeVar

from warren.broker.services.long_polls import PollResult
from warren.broker.services.topics import found_or_made
from warren.broker.services.turns import SCANNED_SIZE_MAX
from warren.errors import GONE, BadInput, NoSuchMessage, NoSuchTopic, TooLarge
from warren.gateway.handlers.topics import topic_of
from warren.gateway.http.limits import HTTP_ANSWER_SIZE_TARGET, HTTP_BODY_SIZE_MAX, HTTP_LIMIT_MAX
from warren.gateway.http.schemas import BASE64, NUMBER, NUMBER_MAX, Bytes, Fields, Listed, Mapped, Shape, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.limits import DELAY_S_MAX, PARTITIONS_MAX
from warren.message import Message
from warren.queue.state.routing import split_by_partition
from warren.queue.topic import Topic
from warren.settings import Count, OrNone, Seconds
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.compression import compression_code
from warren.storage.format.limits import HEADERS_SIZE_MAX, ID_SIZE_MAX, KEY_SIZE_MAX, TAG_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import Packed
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import ScanRoom

P = ParamSpec("P")
T = TypeVar("T")
HTTP_SCANNED_MAX: Final = 10_000
"""How many messages a backward read examines for those that match its filter."""
HTTP_SCANNED_SIZE_MAX: Final = 64 << 20
"""About how many bytes of bodies a backward read examines for those that match its filter."""
HEADERS_MAX: Final = 1000
UNBOUNDED: Final = 1 << 30
"""The size that OpenAPI shows for stored values, because other protocols may have put larger ones than HTTP accepts."""
Encoding = Literal["auto", "base64"]
ENCODINGS: Final = ("auto", "base64")
"""auto: bytes that are UTF-8 become text; base64: all bytes become base64."""

PUT_FIELDS: Final = Fields(
    {
        "body": Bytes(HTTP_BODY_SIZE_MAX),
        "key": Bytes(KEY_SIZE_MAX, is_nullable=True),
        "tag": Text(TAG_SIZE_MAX),
        "headers": Mapped(Bytes(HEADERS_SIZE_MAX), HEADERS_MAX),
        "id": Text(ID_SIZE_MAX),
    },
    required=("body",),
)
"""A message in the body of a put."""

_READ: Final[Mapping[str, Shape]] = {
    "topic": Text(HTTP_BODY_SIZE_MAX),
    "partition": NUMBER,
    "number": NUMBER,
    "offset": NUMBER,
    "time": Text(64),
    "timestamp": NUMBER,
    "id": Text(HTTP_BODY_SIZE_MAX),
    "tag": Text(HTTP_BODY_SIZE_MAX),
    "key": Bytes(HTTP_BODY_SIZE_MAX, is_nullable=True),
    "headers": Mapped(Bytes(HTTP_BODY_SIZE_MAX), HTTP_BODY_SIZE_MAX),
    "body": Bytes(HTTP_BODY_SIZE_MAX),
}
READ_FIELDS: Final = Fields(_READ, required=tuple(_READ))
"""A message in the reply to a read."""
LETTER_FIELDS: Final = Fields({**_READ, "body": Bytes(HTTP_BODY_SIZE_MAX, is_nullable=True)}, required=tuple(_READ))
"""A message in the list of dead letters. Its body is null if it is too large for a reply."""
TAKEN_FIELDS: Final = Fields(
    {**_READ, "attempt": Value(Count(1, NUMBER_MAX)), "lease": Text(256)}, required=(*_READ, "attempt", "lease")
)
"""A message in the reply to a take."""

DUE_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
PUT: Final = Fields(
    {
        "messages": Listed(PUT_FIELDS, HTTP_LIMIT_MAX, 1),
        "partition": Value(Count(0, PARTITIONS_MAX - 1)),
        "delay_s": Value(Seconds(0, DELAY_S_MAX)),
    },
    required=("messages",),
)
_PLACE: Final = Fields({"partition": NUMBER, "number": NUMBER}, required=("partition", "number"))
_PARKED: Final = Fields({"id": Text(100), "due": Text(64)}, required=("id", "due"))
PUT_ANSWER: Final = Fields(
    {"places": Listed(_PLACE, HTTP_LIMIT_MAX), "parked": Listed(_PARKED, HTTP_LIMIT_MAX)}, required=("places", "parked")
)
"""One of the two lists is empty: `places` for a put with a delay, `parked` for a put without one."""

SplitRecords = dict[int, tuple[Sequence[int], list[Packed]]]
"""The rows of the batch and their packed records, by partition."""

LIMIT_DEFAULT: Final = 100
_BOUNDS: Final = dict.fromkeys(("partition", "first", "end"), NUMBER)
READ_ANSWER: Final = Fields(
    {
        "messages": Listed(READ_FIELDS, HTTP_LIMIT_MAX),
        "next": Value(OrNone(Count(0, NUMBER_MAX))),
        "partitions": Listed(Fields(_BOUNDS, required=tuple(_BOUNDS)), PARTITIONS_MAX),
    },
    required=("messages", "next", "partitions"),
)


async def put(request: HttpRequest) -> HttpReply:
    """Puts messages together, and replies when all are as durable as the topic's settings say."""
    topic = await found_or_made(request, request.path["topic"])
    batch = batch_of(request.body["messages"])
    partition, delay_s = request.body.get("partition"), request.body.get("delay_s")
    if delay_s is not None:
        return json_reply(await request.broker.in_thread(_parked, topic, batch, partition, delay_s), 201)
    try:
        places = await _stored(request, topic, batch, partition)
    except GONE as error:
        raise NoSuchTopic(topic.name) from error
    documents = [{"partition": place[0], "number": place[1]} for place in places]
    return json_reply({"places": documents, "parked": []}, 201)


def _parked(topic: Topic, batch: Batch, partition: int | None, delay_s: float) -> dict[str, Any]:
    columns: dict[str, Any] = {name: column for name, column in batch._asdict().items() if name != "bodies"}
    handles = topic.put_many(batch.bodies, partition=partition, delay=delay_s, **columns)
    return {"places": [], "parked": [{"id": each.id, "due": each.due.strftime(DUE_FORMAT)} for each in handles]}


async def _stored(request: HttpRequest, topic: Topic, batch: Batch, partition: int | None) -> list[tuple[int, int]]:
    """Stores the messages. Returns the partition and number of each, in order."""
    broker = request.broker
    parts = await broker.in_thread(_packed, topic, batch, partition)
    numbers = await broker.append_queue.put_all(
        (topic.partition(number), records) for number, (_, records) in parts.items()
    )
    places = [(0, 0)] * len(batch.bodies)
    for (number, (rows, _)), stored in zip(parts.items(), numbers, strict=True):
        for row, at in zip(rows, stored, strict=True):
            places[row] = number, at
    return places


def _packed(topic: Topic, batch: Batch, partition: int | None) -> SplitRecords:
    """Returns the records for each partition. Raises TooLarge for a message over a limit, before anything is stored."""
    topic.check_bodies(batch.bodies)
    keyless = topic.route(None) if partition is None else partition
    compression = compression_code(topic.settings.compression)
    parts: SplitRecords = {}
    for part in split_by_partition(batch, topic.partition_count, keyless, by_key=partition is None):
        log = topic.partition(part.partition)
        records = list(pack_batch(part.batch, "", compression, log.record_size_max))
        parts[part.partition] = part.rows, records
    return parts


class MessagePage(NamedTuple):
    """Messages, and the number to continue from. It is None at the end, and if several partitions were read."""

    messages: list[Message]
    next: int | None


async def read(request: HttpRequest) -> HttpReply:
    """Reads one partition forwards or backwards from a number or a time, or all partitions by time.

    Removes nothing and stores no position.
    """
    if "number" in request.query and "since" in request.query:
        raise BadInput("query: pass either number or since")
    try:
        return await _read(request, topic_of(request), request.query)
    finally:
        release_memory(request)


async def _read(request: HttpRequest, topic: Topic, query: Mapping[str, Any]) -> HttpReply:
    partition = query.get("partition", 0 if topic.partition_count == 1 else None)
    if partition is None:
        if "number" in query:
            raise BadInput(f"query: number needs a partition, of which {str(topic.name)!r} has {topic.partition_count}")
        if query.get("wait_s"):
            raise BadInput("query: wait_s needs a partition")
        page = await (_latest if query.get("backwards", False) else _since)(request, topic)
    else:
        page = await _read_one(request, topic.partition(partition))
    return await request.broker.in_thread(_answer, topic, page, query.get("encoding", "auto"))


async def read_one(request: HttpRequest) -> HttpReply:
    """Reads one message by its partition and number."""
    topic = topic_of(request)
    partition, number = int(request.path["partition"]), int(request.path["number"])
    log, encoding = topic.partition(partition), request.query.get("encoding", "auto")

    def answer() -> HttpReply:
        message = log.at(number)
        if message is None:
            raise NoSuchMessage(str(topic.name), partition, number)
        return json_reply(message_document(message, encoding))

    try:
        return await in_memory(request, answer)
    finally:
        release_memory(request)


async def in_memory(request: HttpRequest, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Calls `work`, which reads messages, on a thread. Waits for memory first if they are large.

    The memory is charged until the request reads again or is answered. A request that still held memory would wait for
    itself.
    """
    release_memory(request)
    memory = request.broker.read_memory
    return await memory.for_answer(request.peer, request.is_gone, lambda: work(*arguments, **named))


def release_memory(request: HttpRequest) -> None:
    """Releases the memory of the messages that were read, because the connection counts the bytes of the reply from now
    on.
    """
    releases, request.peer.answer_memory = request.peer.answer_memory, []
    for release in releases:
        release()


async def _read_one(request: HttpRequest, log: Log) -> MessagePage:
    query, broker = request.query, request.broker
    if query.get("backwards", False):
        return await in_memory(request, _read_back, log, query)
    deadline_s = request.deadline_s(query.get("wait_s", 0.0))
    start = await broker.in_thread(_start, log, query)

    async def attempt(is_rung: bool) -> PollResult[MessagePage]:
        nonlocal start
        page = await in_memory(request, _read_on, log, start, query)
        assert page.next is not None
        if not page.messages:
            release_memory(request)
        start = page.next
        # Messages that were appended since the read above are not announced again by the log.
        return PollResult(page, bool(page.messages) or request.is_gone(), log.end > start)

    # The right may have been removed during a wait.
    return await broker.long_polls.until(attempt, lambda: (log,), deadline_s, resumes=request.check)


def _start(log: Log, query: Any) -> int:
    if "since" in query:
        return log.find_time(query["since"])
    return int(query.get("number", log.first))


def _read_on(log: Log, start: int, query: Any) -> MessagePage:
    tag = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
    sizes = {"bytes_max": HTTP_ANSWER_SIZE_TARGET, "scanned_max": SCANNED_SIZE_MAX}
    page = log.page(start, tag, limit=query.get("limit", LIMIT_DEFAULT), **sizes)
    return MessagePage(page.messages, max(start, page.next_number))


def _read_back(log: Log, query: Any) -> MessagePage:
    """Reads from a number down, latest first. Stops at the limits of the reply and of the messages scanned."""
    start = log.find_time(query["since"]) if "since" in query else query.get("number")
    tag = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
    limit, size, messages, number = query.get("limit", LIMIT_DEFAULT), 0, list[Message](), log.end
    scanned = 0
    for message in islice(log.backwards(start), HTTP_SCANNED_MAX):
        number, scanned = message.number, scanned + len(message.body)
        if tag is None or tag.matches(message.tag):
            messages.append(message)
            size += len(message.body)
            if len(messages) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
                break
        if scanned >= HTTP_SCANNED_SIZE_MAX:
            break
    return MessagePage(messages, number - 1 if log.first < number < log.end else None)


async def _latest(request: HttpRequest, topic: Topic) -> MessagePage:
    """Reads the last messages of all partitions by time, latest first, one partition after the other."""
    query, messages = request.query, list[Message]()
    for log in topic.logs:
        if request.is_gone():
            break
        messages += (await in_memory(request, _read_back, log, query)).messages
        messages = sorted(messages, key=lambda message: -message.timestamp)[: query.get("limit", LIMIT_DEFAULT)]
    return MessagePage(messages, None)


async def _since(request: HttpRequest, topic: Topic) -> MessagePage:
    """Reads all partitions from a time on, by time, in several steps, so that other requests can run in between."""
    broker = request.broker
    merge = await broker.in_thread(Merge, topic, request.query)
    while not await in_memory(request, merge.look, ScanRoom(SCANNED_SIZE_MAX)):
        if broker.is_stopping or request.is_gone():
            break
        request.check()
    return MessagePage(merge.messages, None)


class UnmergedMessages:
    """Messages of one partition that were read and not merged yet, and the number to continue from."""

    __slots__ = ("_end", "_log", "_number", "messages")

    def __init__(self, log: Log, since: Any) -> None:
        self._log, self._number, self._end = log, log.find_time(since), log.end
        self.messages: deque[Message] = deque()

    def reach(self, tag: TagFilter | None, limit: int, bytes_max: int, room: ScanRoom) -> bool:
        """Reads until there is a message or the partition ends. Returns False if `room` was used up before that."""
        while not self.messages and self._number < self._end:
            if room.is_used_up:
                return False
            number = max(self._number, self._log.first)
            page = self._log.page(number, tag, limit=limit, bytes_max=bytes_max, scanned_max=room.left)
            room.use(page)
            self.messages += (message for message in page.messages if message.number < self._end)
            self._number = max(number, page.next_number)
        return True


class Merge:
    """Merges the messages of all partitions from a time on that pass the filter, by time, in several steps."""

    def __init__(self, topic: Topic, query: Any) -> None:
        self.messages: list[Message] = []
        self._limit, self._size_left = query.get("limit", LIMIT_DEFAULT), HTTP_ANSWER_SIZE_TARGET
        self._tag = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
        self._aheads = [UnmergedMessages(log, query.get("since", 0)) for log in topic.logs]
        # All partitions together hold about as much as one reply.
        self._bytes_max = max(1, HTTP_ANSWER_SIZE_TARGET // len(self._aheads))
        self._unseen = list(range(len(self._aheads)))
        self._heads: list[tuple[int, int]] = []
        """The time of the next message of each partition that has one, and the partition: a heap."""

    def look(self, room: ScanRoom) -> bool:
        """Continues for as long as `room` allows. Returns whether the reply is complete."""
        while len(self.messages) < self._limit and self._size_left > 0:
            while self._unseen:
                ahead = self._aheads[self._unseen[-1]]
                if not ahead.reach(self._tag, self._limit, self._bytes_max, room):
                    return False
                self._push(self._unseen.pop())
            if not self._heads:
                return True
            _, partition = heapq.heappop(self._heads)
            message = self._aheads[partition].messages.popleft()
            self.messages.append(message)
            self._size_left -= len(message.body)
            if self._aheads[partition].messages:
                self._push(partition)
            else:
                self._unseen.append(partition)
        return True

    def _push(self, partition: int) -> None:
        messages = self._aheads[partition].messages
        if messages:
            heapq.heappush(self._heads, (messages[0].timestamp, partition))


def _answer(topic: Topic, page: MessagePage, encoding: Any) -> HttpReply:
    """Makes the reply. Runs in a thread, because it may encode megabytes."""
    parts = [{"partition": number, "first": log.first, "end": log.end} for number, log in enumerate(topic.logs)]
    documents = [message_document(message, encoding) for message in page.messages]
    return json_reply({"messages": documents, "next": page.next, "partitions": parts})


def message_document(message: Message, encoding: Encoding = "auto") -> dict[str, Any]:
    """Returns a message as JSON. Raises TooLarge if its body does not fit into a reply."""
    if len(message.body) > HTTP_BODY_SIZE_MAX:
        raise TooLarge(f"message {message.number} for a reply over HTTP: a body", len(message.body), HTTP_BODY_SIZE_MAX)
    return {
        "topic": str(message.topic),
        "partition": message.partition,
        "number": message.number,
        "offset": message.offset,
        "time": message.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "timestamp": message.timestamp,
        "id": message.id,
        "tag": message.tag,
        "key": None if message.key is None else bytes_document(message.key, encoding),
        "headers": {name: bytes_document(value, encoding) for name, value in message.headers.items()},
        "body": bytes_document(message.body, encoding),
    }


def bytes_document(data: bytes, encoding: Encoding) -> str | dict[str, str]:
    """Returns text if `data` is UTF-8 and the encoding is auto, and base64 if not."""
    if encoding == "auto":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {BASE64: base64.b64encode(data).decode()}


def batch_of(messages: Sequence[Mapping[str, Any]]) -> Batch:
    """Returns the messages as columns. A column in which no message has a value is omitted."""
    keys = [message.get("key") for message in messages]
    tags = [message.get("tag", "") for message in messages]
    ids = [message.get("id", "") for message in messages]
    headers = [message.get("headers") or None for message in messages]
    return Batch(
        [message["body"] for message in messages],
        tags=tags if any(tags) else None,
        keys=keys if any(key is not None for key in keys) else None,
        ids=ids if any(ids) else None,
        headers=headers if any(headers) else None,
    )
