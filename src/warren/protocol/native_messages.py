"""The requests and responses of our own.

Written by `make messages`, so change the schemas and not this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from warren.protocol.primitives import NO_UUID, Buffer
from warren.protocol.wire_struct import NativeResponse, NumberedRequest, WaitingRequest, WireRequest, WireStruct


class WireError(WireStruct):
    """A part of several messages."""

    __slots__ = ("code", "sentence", "facts", "retryable")

    def __init__(self, code: str = "", sentence: str = "", facts: str = "", retryable: bool = False) -> None:
        self.code = code
        self.sentence = sentence
        self.facts = facts
        self.retryable = retryable


class OpenSessionResponse(NativeResponse):
    """The response of OpenSession."""

    __slots__ = ("error", "store_id", "software", "incarnation")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(
        self, error: WireError | None = None, store_id: str = "", software: str = "", incarnation: int = 0
    ) -> None:
        self.error = error
        self.store_id = store_id
        self.software = software
        self.incarnation = incarnation


class OpenSessionRequest(WireRequest[OpenSessionResponse]):
    """The request of OpenSession."""

    __slots__ = ("session", "software")
    api_key = 10000
    response = OpenSessionResponse

    def __init__(self, session: bytes = NO_UUID, software: str = "") -> None:
        self.session = session
        self.software = software


class ListTopicsResponse(NativeResponse):
    """The response of ListTopics."""

    __slots__ = ("error", "topics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, topics: Sequence[str] = ()) -> None:
        self.error = error
        self.topics = topics


class ListTopicsRequest(WireRequest[ListTopicsResponse]):
    """The request of ListTopics."""

    __slots__ = ()
    api_key = 10001
    response = ListTopicsResponse


class WireSetting(WireStruct):
    """A part of several messages."""

    __slots__ = ("name", "value")

    def __init__(self, name: str = "", value: str = "") -> None:
        self.name = name
        self.value = value


class OpenTopicResponsePartition(WireStruct):
    """One of the `partitions` of a OpenTopicResponse."""

    __slots__ = ("partition", "first", "end", "size", "created", "updated")

    def __init__(
        self, partition: int = 0, first: int = 0, end: int = 0, size: int = 0, created: int = 0, updated: int = 0
    ) -> None:
        self.partition = partition
        self.first = first
        self.end = end
        self.size = size
        self.created = created
        self.updated = updated


class OpenTopicResponse(NativeResponse):
    """The response of OpenTopic."""

    __slots__ = ("error", "settings", "partitions", "groups", "id")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "settings": WireSetting,
        "partitions": OpenTopicResponsePartition,
    }

    def __init__(
        self,
        error: WireError | None = None,
        settings: Sequence[WireSetting] = (),
        partitions: Sequence[OpenTopicResponsePartition] = (),
        groups: Sequence[str] = (),
        id: bytes = NO_UUID,
    ) -> None:
        self.error = error
        self.settings = settings
        self.partitions = partitions
        self.groups = groups
        self.id = id


class OpenTopicRequest(WireRequest[OpenTopicResponse]):
    """The request of OpenTopic."""

    __slots__ = ("topic", "must_exist", "is_described", "settings")
    api_key = 10002
    response = OpenTopicResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"settings": WireSetting}

    def __init__(
        self,
        topic: str = "",
        must_exist: bool = False,
        is_described: bool = False,
        settings: Sequence[WireSetting] = (),
    ) -> None:
        self.topic = topic
        self.must_exist = must_exist
        self.is_described = is_described
        self.settings = settings


class ConfigureTopicResponse(NativeResponse):
    """The response of ConfigureTopic."""

    __slots__ = ("error", "settings")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "settings": WireSetting}

    def __init__(self, error: WireError | None = None, settings: Sequence[WireSetting] = ()) -> None:
        self.error = error
        self.settings = settings


class ConfigureTopicRequest(WireRequest[ConfigureTopicResponse]):
    """The request of ConfigureTopic."""

    __slots__ = ("topic", "settings")
    api_key = 10003
    response = ConfigureTopicResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"settings": WireSetting}

    def __init__(self, topic: str = "", settings: Sequence[WireSetting] = ()) -> None:
        self.topic = topic
        self.settings = settings


class DeleteTopicResponse(NativeResponse):
    """The response of DeleteTopic."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class DeleteTopicRequest(NumberedRequest[DeleteTopicResponse]):
    """The request of DeleteTopic."""

    __slots__ = ("call_number", "answered_below", "topic")
    api_key = 10004
    response = DeleteTopicResponse

    def __init__(self, call_number: int = 0, answered_below: int = 0, topic: str = "") -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.topic = topic


class WirePosition(WireStruct):
    """A part of several messages."""

    __slots__ = ("partition", "number")

    def __init__(self, partition: int = 0, number: int = 0) -> None:
        self.partition = partition
        self.number = number


class AppendResponse(NativeResponse):
    """The response of Append."""

    __slots__ = ("error", "positions", "offset", "timestamp", "partition_count")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "positions": WirePosition}

    def __init__(
        self,
        error: WireError | None = None,
        positions: Sequence[WirePosition] = (),
        offset: int = 0,
        timestamp: int = 0,
        partition_count: int = 0,
    ) -> None:
        self.error = error
        self.positions = positions
        self.offset = offset
        self.timestamp = timestamp
        self.partition_count = partition_count


class WireRecord(WireStruct):
    """A part of several messages."""

    __slots__ = ("partition", "message_count", "checksum", "payload")

    def __init__(self, partition: int = 0, message_count: int = 0, checksum: int = 0, payload: bytes = b"") -> None:
        self.partition = partition
        self.message_count = message_count
        self.checksum = checksum
        self.payload = payload


class AppendRequest(WireRequest[AppendResponse]):
    """The request of Append."""

    __slots__ = ("topic", "marker", "is_retry", "is_receipt_wanted", "since", "records")
    api_key = 10005
    response = AppendResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"since": WirePosition, "records": WireRecord}

    def __init__(
        self,
        topic: str = "",
        marker: bytes = b"",
        is_retry: bool = False,
        is_receipt_wanted: bool = False,
        since: Sequence[WirePosition] = (),
        records: Sequence[WireRecord] = (),
    ) -> None:
        self.topic = topic
        self.marker = marker
        self.is_retry = is_retry
        self.is_receipt_wanted = is_receipt_wanted
        self.since = since
        self.records = records


class WireMessages(WireStruct):
    """A part of several messages."""

    __slots__ = ("partitions", "numbers", "offsets", "timestamps", "attempts", "records")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"records": WireRecord}

    def __init__(
        self,
        partitions: Sequence[int] = (),
        numbers: Sequence[int] = (),
        offsets: Sequence[int] = (),
        timestamps: Sequence[int] = (),
        attempts: Sequence[int] = (),
        records: Sequence[WireRecord] = (),
    ) -> None:
        self.partitions = partitions
        self.numbers = numbers
        self.offsets = offsets
        self.timestamps = timestamps
        self.attempts = attempts
        self.records = records


class ReadResponse(NativeResponse):
    """The response of Read."""

    __slots__ = ("error", "messages", "positions", "partition_count", "is_more")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "messages": WireMessages,
        "positions": WirePosition,
    }

    def __init__(
        self,
        error: WireError | None = None,
        messages: WireMessages | None = None,
        positions: Sequence[WirePosition] = (),
        partition_count: int = 0,
        is_more: bool = False,
    ) -> None:
        self.error = error
        self.messages = WireMessages() if messages is None else messages
        self.positions = positions
        self.partition_count = partition_count
        self.is_more = is_more


class ReadRequest(WaitingRequest[ReadResponse]):
    """The request of Read."""

    __slots__ = ("topic", "positions", "tag", "is_backwards", "limit", "bytes_max", "wait_ms")
    api_key = 10006
    response = ReadResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"positions": WirePosition}

    def __init__(
        self,
        topic: str = "",
        positions: Sequence[WirePosition] = (),
        tag: str | None = None,
        is_backwards: bool = False,
        limit: int = 0,
        bytes_max: int = 0,
        wait_ms: int = 0,
    ) -> None:
        self.topic = topic
        self.positions = positions
        self.tag = tag
        self.is_backwards = is_backwards
        self.limit = limit
        self.bytes_max = bytes_max
        self.wait_ms = wait_ms


class FindTimeResponse(NativeResponse):
    """The response of FindTime."""

    __slots__ = ("error", "positions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "positions": WirePosition}

    def __init__(self, error: WireError | None = None, positions: Sequence[WirePosition] = ()) -> None:
        self.error = error
        self.positions = positions


class FindTimeRequest(WireRequest[FindTimeResponse]):
    """The request of FindTime."""

    __slots__ = ("topic", "time")
    api_key = 10007
    response = FindTimeResponse

    def __init__(self, topic: str = "", time: int = 0) -> None:
        self.topic = topic
        self.time = time


class ScanResponse(NativeResponse):
    """The response of Scan."""

    __slots__ = ("error", "next", "padding", "arrow")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(
        self,
        error: WireError | None = None,
        next: int = 0,
        padding: bytes = b"",
        arrow: Buffer | Sequence[Buffer] | None = None,
    ) -> None:
        self.error = error
        self.next = next
        self.padding = padding
        self.arrow = arrow


class ScanRequest(WireRequest[ScanResponse]):
    """The request of Scan."""

    __slots__ = ("topic", "partition", "start", "end", "columns", "tag", "rows_min", "skips", "bytes_max")
    api_key = 10008
    response = ScanResponse

    def __init__(
        self,
        topic: str = "",
        partition: int = 0,
        start: int = 0,
        end: int = 0,
        columns: Sequence[str] | None = None,
        tag: str | None = None,
        rows_min: int = 0,
        skips: bool = False,
        bytes_max: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.columns = columns
        self.tag = tag
        self.rows_min = rows_min
        self.skips = skips
        self.bytes_max = bytes_max


class ParkResponse(NativeResponse):
    """The response of Park."""

    __slots__ = ("error", "ids")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, ids: Sequence[str] = ()) -> None:
        self.error = error
        self.ids = ids


class ParkRequest(NumberedRequest[ParkResponse]):
    """The request of Park."""

    __slots__ = ("call_number", "answered_below", "topic", "due", "is_delay", "partition", "records")
    api_key = 10009
    response = ParkResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"records": WireRecord}

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        topic: str = "",
        due: int = 0,
        is_delay: bool = False,
        partition: int = 0,
        records: Sequence[WireRecord] = (),
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.topic = topic
        self.due = due
        self.is_delay = is_delay
        self.partition = partition
        self.records = records


class ListParkedResponseParked(WireStruct):
    """One of the `parked` of a ListParkedResponse."""

    __slots__ = ("id", "due", "partition")

    def __init__(self, id: str = "", due: int = 0, partition: int = 0) -> None:
        self.id = id
        self.due = due
        self.partition = partition


class ListParkedResponse(NativeResponse):
    """The response of ListParked."""

    __slots__ = ("error", "parked", "messages")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "parked": ListParkedResponseParked,
        "messages": WireMessages,
    }

    def __init__(
        self,
        error: WireError | None = None,
        parked: Sequence[ListParkedResponseParked] = (),
        messages: WireMessages | None = None,
    ) -> None:
        self.error = error
        self.parked = parked
        self.messages = WireMessages() if messages is None else messages


class ListParkedRequest(WireRequest[ListParkedResponse]):
    """The request of ListParked."""

    __slots__ = ("topic", "after", "limit", "bytes_max")
    api_key = 10010
    response = ListParkedResponse

    def __init__(self, topic: str = "", after: str = "", limit: int = 0, bytes_max: int = 0) -> None:
        self.topic = topic
        self.after = after
        self.limit = limit
        self.bytes_max = bytes_max


class CancelParkedResponse(NativeResponse):
    """The response of CancelParked."""

    __slots__ = ("error", "is_cancelled")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, is_cancelled: bool = False) -> None:
        self.error = error
        self.is_cancelled = is_cancelled


class CancelParkedRequest(NumberedRequest[CancelParkedResponse]):
    """The request of CancelParked."""

    __slots__ = ("call_number", "answered_below", "topic", "id")
    api_key = 10011
    response = CancelParkedResponse

    def __init__(self, call_number: int = 0, answered_below: int = 0, topic: str = "", id: str = "") -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.topic = topic
        self.id = id


class OpenGroupResponse(NativeResponse):
    """The response of OpenGroup."""

    __slots__ = ("error", "member", "settings")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "settings": WireSetting}

    def __init__(self, error: WireError | None = None, member: str = "", settings: Sequence[WireSetting] = ()) -> None:
        self.error = error
        self.member = member
        self.settings = settings


class OpenGroupRequest(WireRequest[OpenGroupResponse]):
    """The request of OpenGroup."""

    __slots__ = ("handle", "topic", "group", "mode", "settings")
    api_key = 10012
    response = OpenGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"settings": WireSetting}

    def __init__(
        self, handle: int = 0, topic: str = "", group: str = "", mode: str = "", settings: Sequence[WireSetting] = ()
    ) -> None:
        self.handle = handle
        self.topic = topic
        self.group = group
        self.mode = mode
        self.settings = settings


class DeleteGroupResponse(NativeResponse):
    """The response of DeleteGroup."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class DeleteGroupRequest(NumberedRequest[DeleteGroupResponse]):
    """The request of DeleteGroup."""

    __slots__ = ("call_number", "answered_below", "topic", "group")
    api_key = 10013
    response = DeleteGroupResponse

    def __init__(self, call_number: int = 0, answered_below: int = 0, topic: str = "", group: str = "") -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.topic = topic
        self.group = group


class DescribeGroupResponse(NativeResponse):
    """The response of DescribeGroup."""

    __slots__ = ("error", "owned", "members", "positions", "read", "lag", "in_flight", "dead")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "positions": WirePosition,
        "read": WirePosition,
        "lag": WirePosition,
    }

    def __init__(
        self,
        error: WireError | None = None,
        owned: Sequence[int] = (),
        members: Sequence[str] = (),
        positions: Sequence[WirePosition] = (),
        read: Sequence[WirePosition] = (),
        lag: Sequence[WirePosition] = (),
        in_flight: int = 0,
        dead: str = "",
    ) -> None:
        self.error = error
        self.owned = owned
        self.members = members
        self.positions = positions
        self.read = read
        self.lag = lag
        self.in_flight = in_flight
        self.dead = dead


class DescribeGroupRequest(WireRequest[DescribeGroupResponse]):
    """The request of DescribeGroup."""

    __slots__ = ("handle", "is_dead_wanted")
    api_key = 10014
    response = DescribeGroupResponse

    def __init__(self, handle: int = 0, is_dead_wanted: bool = False) -> None:
        self.handle = handle
        self.is_dead_wanted = is_dead_wanted


class ReadGroupResponse(NativeResponse):
    """The response of ReadGroup."""

    __slots__ = ("error", "messages", "owned")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "messages": WireMessages}

    def __init__(
        self, error: WireError | None = None, messages: WireMessages | None = None, owned: Sequence[int] = ()
    ) -> None:
        self.error = error
        self.messages = WireMessages() if messages is None else messages
        self.owned = owned


class ReadGroupRequest(WaitingRequest[ReadGroupResponse]):
    """The request of ReadGroup."""

    __slots__ = ("handle", "serial", "attempt", "open_from", "limit", "bytes_max", "wait_ms")
    api_key = 10015
    response = ReadGroupResponse

    def __init__(
        self,
        handle: int = 0,
        serial: int = 0,
        attempt: int = 0,
        open_from: int = 0,
        limit: int = 0,
        bytes_max: int = 0,
        wait_ms: int = 0,
    ) -> None:
        self.handle = handle
        self.serial = serial
        self.attempt = attempt
        self.open_from = open_from
        self.limit = limit
        self.bytes_max = bytes_max
        self.wait_ms = wait_ms


class CommitGroupResponse(NativeResponse):
    """The response of CommitGroup."""

    __slots__ = ("error", "positions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "positions": WirePosition}

    def __init__(self, error: WireError | None = None, positions: Sequence[WirePosition] = ()) -> None:
        self.error = error
        self.positions = positions


class CommitGroupRequest(NumberedRequest[CommitGroupResponse]):
    """The request of CommitGroup."""

    __slots__ = ("call_number", "answered_below", "handle", "positions")
    api_key = 10016
    response = CommitGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"positions": WirePosition}

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        positions: Sequence[WirePosition] | None = None,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.positions = positions


class SeekGroupResponse(NativeResponse):
    """The response of SeekGroup."""

    __slots__ = ("error", "positions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "positions": WirePosition}

    def __init__(self, error: WireError | None = None, positions: Sequence[WirePosition] = ()) -> None:
        self.error = error
        self.positions = positions


class SeekGroupRequest(NumberedRequest[SeekGroupResponse]):
    """The request of SeekGroup."""

    __slots__ = ("call_number", "answered_below", "handle", "to", "where", "partition")
    api_key = 10017
    response = SeekGroupResponse

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        to: str = "",
        where: int = 0,
        partition: int = 0,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.to = to
        self.where = where
        self.partition = partition


class TakeResponse(NativeResponse):
    """The response of Take."""

    __slots__ = ("error", "messages")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "messages": WireMessages}

    def __init__(self, error: WireError | None = None, messages: WireMessages | None = None) -> None:
        self.error = error
        self.messages = WireMessages() if messages is None else messages


class TakeRequest(NumberedRequest[TakeResponse], WaitingRequest[TakeResponse]):
    """The request of Take."""

    __slots__ = ("call_number", "answered_below", "handle", "limit", "wait_ms")
    api_key = 10018
    response = TakeResponse

    def __init__(
        self, call_number: int = 0, answered_below: int = 0, handle: int = 0, limit: int = 0, wait_ms: int = 0
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.limit = limit
        self.wait_ms = wait_ms


class SettleResponse(NativeResponse):
    """The response of Settle."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class WireLeases(WireStruct):
    """A part of several messages."""

    __slots__ = ("partitions", "numbers", "attempts")

    def __init__(
        self, partitions: Sequence[int] = (), numbers: Sequence[int] = (), attempts: Sequence[int] = ()
    ) -> None:
        self.partitions = partitions
        self.numbers = numbers
        self.attempts = attempts


class SettleRequest(NumberedRequest[SettleResponse]):
    """The request of Settle."""

    __slots__ = ("call_number", "answered_below", "handle", "action", "places", "seconds", "reason")
    api_key = 10019
    response = SettleResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"places": WireLeases}

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        action: str = "",
        places: WireLeases | None = None,
        seconds: float = 0.0,
        reason: str = "",
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.action = action
        self.places = WireLeases() if places is None else places
        self.seconds = seconds
        self.reason = reason


class RedriveResponse(NativeResponse):
    """The response of Redrive."""

    __slots__ = ("error", "count")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, count: int = 0) -> None:
        self.error = error
        self.count = count


class RedriveRequest(NumberedRequest[RedriveResponse]):
    """The request of Redrive."""

    __slots__ = ("call_number", "answered_below", "handle", "limit", "places")
    api_key = 10020
    response = RedriveResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"places": WireLeases}

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        limit: int = 0,
        places: WireLeases | None = None,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.limit = limit
        self.places = WireLeases() if places is None else places


class BeginTransactionResponse(NativeResponse):
    """The response of BeginTransaction."""

    __slots__ = ("error", "id")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, id: str = "") -> None:
        self.error = error
        self.id = id


class BeginTransactionRequest(NumberedRequest[BeginTransactionResponse]):
    """The request of BeginTransaction."""

    __slots__ = ("call_number", "answered_below", "handle", "id", "timeout", "prepared_timeout")
    api_key = 10021
    response = BeginTransactionResponse

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        id: str | None = None,
        timeout: float = 0.0,
        prepared_timeout: float = 0.0,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.id = id
        self.timeout = timeout
        self.prepared_timeout = prepared_timeout


class ChangeTransactionResponse(NativeResponse):
    """The response of ChangeTransaction."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class ChangeTransactionRequest(NumberedRequest[ChangeTransactionResponse]):
    """The request of ChangeTransaction."""

    __slots__ = (
        "call_number",
        "answered_below",
        "handle",
        "topic",
        "partition",
        "due",
        "is_delay",
        "records",
        "arrow",
        "group",
        "positions",
        "places",
    )
    api_key = 10022
    response = ChangeTransactionResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "records": WireRecord,
        "positions": WirePosition,
        "places": WireLeases,
    }

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        topic: str = "",
        partition: int = 0,
        due: int = 0,
        is_delay: bool = False,
        records: Sequence[WireRecord] = (),
        arrow: bytes = b"",
        group: int = 0,
        positions: Sequence[WirePosition] | None = None,
        places: WireLeases | None = None,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.topic = topic
        self.partition = partition
        self.due = due
        self.is_delay = is_delay
        self.records = records
        self.arrow = arrow
        self.group = group
        self.positions = positions
        self.places = WireLeases() if places is None else places


class EndTransactionResponse(NativeResponse):
    """The response of EndTransaction."""

    __slots__ = ("error", "state")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, state: str = "") -> None:
        self.error = error
        self.state = state


class EndTransactionRequest(NumberedRequest[EndTransactionResponse]):
    """The request of EndTransaction."""

    __slots__ = ("call_number", "answered_below", "handle", "id", "action")
    api_key = 10023
    response = EndTransactionResponse

    def __init__(
        self, call_number: int = 0, answered_below: int = 0, handle: int = 0, id: str = "", action: str = ""
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.id = id
        self.action = action


class CommitBatchResponse(NativeResponse):
    """The response of CommitBatch."""

    __slots__ = ("error", "state")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, state: str = "") -> None:
        self.error = error
        self.state = state


class CommitBatchRequest(WireRequest[CommitBatchResponse]):
    """The request of CommitBatch."""

    __slots__ = ("application", "version", "ids")
    api_key = 10024
    response = CommitBatchResponse

    def __init__(self, application: str | None = None, version: int = 0, ids: Sequence[str] = ()) -> None:
        self.application = application
        self.version = version
        self.ids = ids


class RecoverResponsePrepared(WireStruct):
    """One of the `prepared` of a RecoverResponse."""

    __slots__ = ("id", "when", "message_count", "position_count", "ack_count")

    def __init__(
        self, id: str = "", when: int = 0, message_count: int = 0, position_count: int = 0, ack_count: int = 0
    ) -> None:
        self.id = id
        self.when = when
        self.message_count = message_count
        self.position_count = position_count
        self.ack_count = ack_count


class RecoverResponse(NativeResponse):
    """The response of Recover."""

    __slots__ = ("error", "prepared", "ids", "version", "failure")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "prepared": RecoverResponsePrepared}

    def __init__(
        self,
        error: WireError | None = None,
        prepared: Sequence[RecoverResponsePrepared] = (),
        ids: Sequence[str] = (),
        version: int = 0,
        failure: str = "",
    ) -> None:
        self.error = error
        self.prepared = prepared
        self.ids = ids
        self.version = version
        self.failure = failure


class RecoverRequest(WireRequest[RecoverResponse]):
    """The request of Recover."""

    __slots__ = ("action", "name", "before")
    api_key = 10025
    response = RecoverResponse

    def __init__(self, action: str = "", name: str = "", before: str | None = None) -> None:
        self.action = action
        self.name = name
        self.before = before


class OpenProducerResponse(NativeResponse):
    """The response of OpenProducer."""

    __slots__ = ("error", "sequence")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, sequence: int = 0) -> None:
        self.error = error
        self.sequence = sequence


class OpenProducerRequest(WireRequest[OpenProducerResponse]):
    """The request of OpenProducer."""

    __slots__ = ("handle", "producer")
    api_key = 10026
    response = OpenProducerResponse

    def __init__(self, handle: int = 0, producer: str = "") -> None:
        self.handle = handle
        self.producer = producer


class NumberedPutResponse(NativeResponse):
    """The response of NumberedPut."""

    __slots__ = ("error", "is_written", "sequence", "partitions", "numbers", "offset", "timestamp")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(
        self,
        error: WireError | None = None,
        is_written: bool = False,
        sequence: int = 0,
        partitions: Sequence[int] = (),
        numbers: Sequence[int] = (),
        offset: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.error = error
        self.is_written = is_written
        self.sequence = sequence
        self.partitions = partitions
        self.numbers = numbers
        self.offset = offset
        self.timestamp = timestamp


class NumberedPutRequest(WireRequest[NumberedPutResponse]):
    """The request of NumberedPut."""

    __slots__ = ("handle", "topic", "sequence", "partition", "records")
    api_key = 10027
    response = NumberedPutResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"records": WireRecord}

    def __init__(
        self,
        handle: int = 0,
        topic: str = "",
        sequence: int = 0,
        partition: int = 0,
        records: Sequence[WireRecord] = (),
    ) -> None:
        self.handle = handle
        self.topic = topic
        self.sequence = sequence
        self.partition = partition
        self.records = records


class OpenQueueResponse(NativeResponse):
    """The response of OpenQueue."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class OpenQueueRequest(WireRequest[OpenQueueResponse]):
    """The request of OpenQueue."""

    __slots__ = ("handle", "queue", "maxsize", "settings", "must_exist")
    api_key = 10028
    response = OpenQueueResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"settings": WireSetting}

    def __init__(
        self,
        handle: int = 0,
        queue: str = "",
        maxsize: int = 0,
        settings: Sequence[WireSetting] = (),
        must_exist: bool = False,
    ) -> None:
        self.handle = handle
        self.queue = queue
        self.maxsize = maxsize
        self.settings = settings
        self.must_exist = must_exist


class UseQueueResponse(NativeResponse):
    """The response of UseQueue."""

    __slots__ = ("error", "is_done", "item", "count")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(
        self, error: WireError | None = None, is_done: bool = False, item: bytes = b"", count: int = 0
    ) -> None:
        self.error = error
        self.is_done = is_done
        self.item = item
        self.count = count


class UseQueueRequest(NumberedRequest[UseQueueResponse], WaitingRequest[UseQueueResponse]):
    """The request of UseQueue."""

    __slots__ = ("call_number", "answered_below", "handle", "action", "item", "wait_ms", "delay", "number")
    api_key = 10029
    response = UseQueueResponse

    def __init__(
        self,
        call_number: int = 0,
        answered_below: int = 0,
        handle: int = 0,
        action: str = "",
        item: bytes = b"",
        wait_ms: int = 0,
        delay: int = 0,
        number: int = 0,
    ) -> None:
        self.call_number = call_number
        self.answered_below = answered_below
        self.handle = handle
        self.action = action
        self.item = item
        self.wait_ms = wait_ms
        self.delay = delay
        self.number = number


class CloseHandleResponse(NativeResponse):
    """The response of CloseHandle."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class CloseHandleRequest(WireRequest[CloseHandleResponse]):
    """The request of CloseHandle."""

    __slots__ = ("handle",)
    api_key = 10030
    response = CloseHandleResponse

    def __init__(self, handle: int = 0) -> None:
        self.handle = handle


class StatisticsResponse(NativeResponse):
    """The response of Statistics."""

    __slots__ = ("error", "statistics")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, statistics: str = "") -> None:
        self.error = error
        self.statistics = statistics


class StatisticsRequest(WireRequest[StatisticsResponse]):
    """The request of Statistics."""

    __slots__ = ("is_standing_wanted",)
    api_key = 10031
    response = StatisticsResponse

    def __init__(self, is_standing_wanted: bool = False) -> None:
        self.is_standing_wanted = is_standing_wanted


class SeeGroupResponsePutBack(WireStruct):
    """One of the `put_back` of a SeeGroupResponse."""

    __slots__ = ("partition", "start", "numbers")

    def __init__(self, partition: int = 0, start: int = 0, numbers: Sequence[int] = ()) -> None:
        self.partition = partition
        self.start = start
        self.numbers = numbers


class SeeGroupResponse(NativeResponse):
    """The response of SeeGroup."""

    __slots__ = ("error", "settings", "members", "positions", "ends", "lag", "in_flight", "put_back")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "settings": WireSetting,
        "positions": WirePosition,
        "ends": WirePosition,
        "lag": WirePosition,
        "put_back": SeeGroupResponsePutBack,
    }

    def __init__(
        self,
        error: WireError | None = None,
        settings: Sequence[WireSetting] = (),
        members: Sequence[str] = (),
        positions: Sequence[WirePosition] = (),
        ends: Sequence[WirePosition] = (),
        lag: Sequence[WirePosition] = (),
        in_flight: int = 0,
        put_back: Sequence[SeeGroupResponsePutBack] = (),
    ) -> None:
        self.error = error
        self.settings = settings
        self.members = members
        self.positions = positions
        self.ends = ends
        self.lag = lag
        self.in_flight = in_flight
        self.put_back = put_back


class SeeGroupRequest(WireRequest[SeeGroupResponse]):
    """The request of SeeGroup."""

    __slots__ = ("topic", "group", "is_described", "is_put_back_wanted")
    api_key = 10032
    response = SeeGroupResponse

    def __init__(
        self, topic: str = "", group: str = "", is_described: bool = False, is_put_back_wanted: bool = False
    ) -> None:
        self.topic = topic
        self.group = group
        self.is_described = is_described
        self.is_put_back_wanted = is_put_back_wanted


class ListDeadResponse(NativeResponse):
    """The response of ListDead."""

    __slots__ = ("error", "topic", "messages", "positions")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "messages": WireMessages,
        "positions": WirePosition,
    }

    def __init__(
        self,
        error: WireError | None = None,
        topic: str = "",
        messages: WireMessages | None = None,
        positions: Sequence[WirePosition] = (),
    ) -> None:
        self.error = error
        self.topic = topic
        self.messages = WireMessages() if messages is None else messages
        self.positions = positions


class ListDeadRequest(WireRequest[ListDeadResponse]):
    """The request of ListDead."""

    __slots__ = ("topic", "group", "positions", "limit", "bytes_max")
    api_key = 10033
    response = ListDeadResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"positions": WirePosition}

    def __init__(
        self,
        topic: str = "",
        group: str | None = None,
        positions: Sequence[WirePosition] = (),
        limit: int = 0,
        bytes_max: int = 0,
    ) -> None:
        self.topic = topic
        self.group = group
        self.positions = positions
        self.limit = limit
        self.bytes_max = bytes_max


class RetireTopicResponse(NativeResponse):
    """The response of RetireTopic."""

    __slots__ = ("error",)
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None) -> None:
        self.error = error


class RetireTopicRequest(WireRequest[RetireTopicResponse]):
    """The request of RetireTopic."""

    __slots__ = ("topic",)
    api_key = 10034
    response = RetireTopicResponse

    def __init__(self, topic: str = "") -> None:
        self.topic = topic


class ConfigureGroupResponse(NativeResponse):
    """The response of ConfigureGroup."""

    __slots__ = ("error", "settings")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "settings": WireSetting}

    def __init__(self, error: WireError | None = None, settings: Sequence[WireSetting] = ()) -> None:
        self.error = error
        self.settings = settings


class ConfigureGroupRequest(WireRequest[ConfigureGroupResponse]):
    """The request of ConfigureGroup."""

    __slots__ = ("topic", "group", "settings")
    api_key = 10035
    response = ConfigureGroupResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"settings": WireSetting}

    def __init__(self, topic: str = "", group: str = "", settings: Sequence[WireSetting] = ()) -> None:
        self.topic = topic
        self.group = group
        self.settings = settings


class SeeClusterResponseReplica(WireStruct):
    """One of the `replicas` of a SeeClusterResponseShard."""

    __slots__ = ("replica", "node", "host", "port", "is_alive", "is_insync", "is_observer", "acknowledged", "silent_ms")

    def __init__(
        self,
        replica: int = 0,
        node: int = 0,
        host: str = "",
        port: int = 0,
        is_alive: bool = False,
        is_insync: bool = False,
        is_observer: bool = False,
        acknowledged: int = 0,
        silent_ms: int = 0,
    ) -> None:
        self.replica = replica
        self.node = node
        self.host = host
        self.port = port
        self.is_alive = is_alive
        self.is_insync = is_insync
        self.is_observer = is_observer
        self.acknowledged = acknowledged
        self.silent_ms = silent_ms


class SeeClusterResponseShard(WireStruct):
    """One of the `shards` of a SeeClusterResponse."""

    __slots__ = ("shard", "epoch", "master", "min_insync", "barrier", "replicas")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"replicas": SeeClusterResponseReplica}

    def __init__(
        self,
        shard: int = 0,
        epoch: int = 0,
        master: int = 0,
        min_insync: int = 0,
        barrier: int = 0,
        replicas: Sequence[SeeClusterResponseReplica] = (),
    ) -> None:
        self.shard = shard
        self.epoch = epoch
        self.master = master
        self.min_insync = min_insync
        self.barrier = barrier
        self.replicas = replicas


class SeeClusterResponse(NativeResponse):
    """The response of SeeCluster."""

    __slots__ = ("error", "cluster", "node", "shards")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "shards": SeeClusterResponseShard}

    def __init__(
        self,
        error: WireError | None = None,
        cluster: str = "",
        node: int = 0,
        shards: Sequence[SeeClusterResponseShard] = (),
    ) -> None:
        self.error = error
        self.cluster = cluster
        self.node = node
        self.shards = shards


class SeeClusterRequest(WireRequest[SeeClusterResponse]):
    """The request of SeeCluster."""

    __slots__ = ()
    api_key = 10036
    response = SeeClusterResponse


class FindReplicasResponse(NativeResponse):
    """The response of FindReplicas."""

    __slots__ = ("error", "store_id", "addresses")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, store_id: str = "", addresses: Sequence[str] = ()) -> None:
        self.error = error
        self.store_id = store_id
        self.addresses = addresses


class FindReplicasRequest(WireRequest[FindReplicasResponse]):
    """The request of FindReplicas."""

    __slots__ = ("rack",)
    api_key = 10037
    response = FindReplicasResponse

    def __init__(self, rack: str = "") -> None:
        self.rack = rack


class JoinShardResponseLog(WireStruct):
    """One of the `logs` of a JoinShardResponse."""

    __slots__ = ("log", "first", "cut")

    def __init__(self, log: str = "", first: int = 0, cut: int = 0) -> None:
        self.log = log
        self.first = first
        self.cut = cut


class JoinShardResponse(NativeResponse):
    """The response of JoinShard."""

    __slots__ = ("error", "refusal", "epoch", "nonce", "link", "epochs", "is_common", "logs", "barrier")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "logs": JoinShardResponseLog}

    def __init__(
        self,
        error: WireError | None = None,
        refusal: str = "",
        epoch: int = 0,
        nonce: str = "",
        link: int = 0,
        epochs: bytes = b"",
        is_common: bool = False,
        logs: Sequence[JoinShardResponseLog] = (),
        barrier: int = 0,
    ) -> None:
        self.error = error
        self.refusal = refusal
        self.epoch = epoch
        self.nonce = nonce
        self.link = link
        self.epochs = epochs
        self.is_common = is_common
        self.logs = logs
        self.barrier = barrier


class JoinShardRequestLog(WireStruct):
    """One of the `logs` of a JoinShardRequest."""

    __slots__ = ("log", "first", "tail")

    def __init__(self, log: str = "", first: int = 0, tail: int = 0) -> None:
        self.log = log
        self.first = first
        self.tail = tail


class JoinShardRequest(WireRequest[JoinShardResponse]):
    """The request of JoinShard."""

    __slots__ = ("replica", "incarnation", "boot", "nonce", "link", "epoch", "cluster", "shard", "epochs", "logs")
    api_key = 10100
    response = JoinShardResponse
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"logs": JoinShardRequestLog}

    def __init__(
        self,
        replica: int = 0,
        incarnation: str = "",
        boot: str = "",
        nonce: str = "",
        link: int = 0,
        epoch: int = 0,
        cluster: str = "",
        shard: int = 0,
        epochs: bytes = b"",
        logs: Sequence[JoinShardRequestLog] = (),
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.boot = boot
        self.nonce = nonce
        self.link = link
        self.epoch = epoch
        self.cluster = cluster
        self.shard = shard
        self.epochs = epochs
        self.logs = logs


class ListStateResponseFile(WireStruct):
    """One of the `files` of a ListStateResponse."""

    __slots__ = ("path", "digest")

    def __init__(self, path: str = "", digest: bytes = b"") -> None:
        self.path = path
        self.digest = digest


class ListStateResponse(NativeResponse):
    """The response of ListState."""

    __slots__ = ("error", "refusal", "epoch", "nonce", "link", "after", "files", "is_complete")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "files": ListStateResponseFile}

    def __init__(
        self,
        error: WireError | None = None,
        refusal: str = "",
        epoch: int = 0,
        nonce: str = "",
        link: int = 0,
        after: str = "",
        files: Sequence[ListStateResponseFile] = (),
        is_complete: bool = False,
    ) -> None:
        self.error = error
        self.refusal = refusal
        self.epoch = epoch
        self.nonce = nonce
        self.link = link
        self.after = after
        self.files = files
        self.is_complete = is_complete


class ListStateRequest(WireRequest[ListStateResponse]):
    """The request of ListState."""

    __slots__ = ("replica", "incarnation", "boot", "nonce", "link", "epoch", "after")
    api_key = 10101
    response = ListStateResponse

    def __init__(
        self,
        replica: int = 0,
        incarnation: str = "",
        boot: str = "",
        nonce: str = "",
        link: int = 0,
        epoch: int = 0,
        after: str = "",
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.boot = boot
        self.nonce = nonce
        self.link = link
        self.epoch = epoch
        self.after = after


class FetchStateResponseFile(WireStruct):
    """One of the `files` of a FetchStateResponse."""

    __slots__ = ("path", "content")

    def __init__(self, path: str = "", content: bytes | None = None) -> None:
        self.path = path
        self.content = content


class FetchStateResponse(NativeResponse):
    """The response of FetchState."""

    __slots__ = ("error", "refusal", "epoch", "nonce", "link", "files")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "files": FetchStateResponseFile}

    def __init__(
        self,
        error: WireError | None = None,
        refusal: str = "",
        epoch: int = 0,
        nonce: str = "",
        link: int = 0,
        files: Sequence[FetchStateResponseFile] = (),
    ) -> None:
        self.error = error
        self.refusal = refusal
        self.epoch = epoch
        self.nonce = nonce
        self.link = link
        self.files = files


class FetchStateRequest(WireRequest[FetchStateResponse]):
    """The request of FetchState."""

    __slots__ = ("replica", "incarnation", "boot", "nonce", "link", "epoch", "paths")
    api_key = 10102
    response = FetchStateResponse

    def __init__(
        self,
        replica: int = 0,
        incarnation: str = "",
        boot: str = "",
        nonce: str = "",
        link: int = 0,
        epoch: int = 0,
        paths: Sequence[str] = (),
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.boot = boot
        self.nonce = nonce
        self.link = link
        self.epoch = epoch
        self.paths = paths


class FetchShardResponseItem(WireStruct):
    """One of the `items` of a FetchShardResponse."""

    __slots__ = ("kind", "subject", "block", "position", "first", "end", "number", "data")

    def __init__(
        self,
        kind: int = 0,
        subject: str = "",
        block: int = 0,
        position: int = 0,
        first: int = 0,
        end: int = 0,
        number: int = 0,
        data: Buffer | Sequence[Buffer] | None = None,
    ) -> None:
        self.kind = kind
        self.subject = subject
        self.block = block
        self.position = position
        self.first = first
        self.end = end
        self.number = number
        self.data = data


class FetchShardResponseCommitted(WireStruct):
    """One of the `committed` of a FetchShardResponse."""

    __slots__ = ("log", "end")

    def __init__(self, log: str = "", end: int = 0) -> None:
        self.log = log
        self.end = end


class FetchShardResponse(NativeResponse):
    """The response of FetchShard."""

    __slots__ = ("error", "refusal", "epoch", "nonce", "link", "number", "barrier", "items", "committed")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {
        "error": WireError,
        "items": FetchShardResponseItem,
        "committed": FetchShardResponseCommitted,
    }

    def __init__(
        self,
        error: WireError | None = None,
        refusal: str = "",
        epoch: int = 0,
        nonce: str = "",
        link: int = 0,
        number: int = 0,
        barrier: int = 0,
        items: Sequence[FetchShardResponseItem] = (),
        committed: Sequence[FetchShardResponseCommitted] = (),
    ) -> None:
        self.error = error
        self.refusal = refusal
        self.epoch = epoch
        self.nonce = nonce
        self.link = link
        self.number = number
        self.barrier = barrier
        self.items = items
        self.committed = committed


class FetchShardRequest(WireRequest[FetchShardResponse]):
    """The request of FetchShard."""

    __slots__ = ("replica", "incarnation", "boot", "nonce", "link", "epoch", "follows", "acknowledged", "bytes_max")
    api_key = 10103
    response = FetchShardResponse

    def __init__(
        self,
        replica: int = 0,
        incarnation: str = "",
        boot: str = "",
        nonce: str = "",
        link: int = 0,
        epoch: int = 0,
        follows: int = 0,
        acknowledged: int = 0,
        bytes_max: int = 0,
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.boot = boot
        self.nonce = nonce
        self.link = link
        self.epoch = epoch
        self.follows = follows
        self.acknowledged = acknowledged
        self.bytes_max = bytes_max


class HandOverShardResponse(NativeResponse):
    """The response of HandOverShard."""

    __slots__ = ("error", "replica")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(self, error: WireError | None = None, replica: int = 0) -> None:
        self.error = error
        self.replica = replica


class HandOverShardRequest(WireRequest[HandOverShardResponse]):
    """The request of HandOverShard."""

    __slots__ = ("shard", "replica")
    api_key = 10104
    response = HandOverShardResponse

    def __init__(self, shard: int = 0, replica: int = 0) -> None:
        self.shard = shard
        self.replica = replica


class ListCopyResponseFile(WireStruct):
    """One of the `files` of a ListCopyResponse."""

    __slots__ = ("path", "digest", "first", "end")

    def __init__(self, path: str = "", digest: bytes = b"", first: int = 0, end: int = 0) -> None:
        self.path = path
        self.digest = digest
        self.first = first
        self.end = end


class ListCopyResponse(NativeResponse):
    """The response of ListCopy."""

    __slots__ = ("error", "files", "is_complete")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError, "files": ListCopyResponseFile}

    def __init__(
        self, error: WireError | None = None, files: Sequence[ListCopyResponseFile] = (), is_complete: bool = False
    ) -> None:
        self.error = error
        self.files = files
        self.is_complete = is_complete


class ListCopyRequest(WireRequest[ListCopyResponse]):
    """The request of ListCopy."""

    __slots__ = ("after", "paths")
    api_key = 10105
    response = ListCopyResponse

    def __init__(self, after: str = "", paths: Sequence[str] = ()) -> None:
        self.after = after
        self.paths = paths


class DigestRecordsResponse(NativeResponse):
    """The response of DigestRecords."""

    __slots__ = ("error", "is_there", "first", "end", "next", "digest")
    structs: ClassVar[Mapping[str, type[WireStruct]]] = {"error": WireError}

    def __init__(
        self,
        error: WireError | None = None,
        is_there: bool = False,
        first: int = 0,
        end: int = 0,
        next: int = 0,
        digest: bytes = b"",
    ) -> None:
        self.error = error
        self.is_there = is_there
        self.first = first
        self.end = end
        self.next = next
        self.digest = digest


class DigestRecordsRequest(WireRequest[DigestRecordsResponse]):
    """The request of DigestRecords."""

    __slots__ = ("log", "start", "end", "bytes_max", "is_checked")
    api_key = 10106
    response = DigestRecordsResponse

    def __init__(
        self, log: str = "", start: int = 0, end: int = 0, bytes_max: int = 0, is_checked: bool = False
    ) -> None:
        self.log = log
        self.start = start
        self.end = end
        self.bytes_max = bytes_max
        self.is_checked = is_checked
