"""The values that callers pass to the objects of the contract (`warren.api`) and get back from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias, TypedDict

from warren.clock import Duration
from warren.message import NO_CORR_OFFSET, Edge, Message

When: TypeAlias = datetime | float | int
"""A time: a datetime with a zone, seconds since the epoch as float, or µs since the epoch as int."""
Where: TypeAlias = int | float | datetime | Edge
"""A place in a partition: a number, a time (seconds since the epoch as float, or a datetime), START or END."""


# --- Parameters ---


class FieldOptions(TypedDict, total=False):
    """The fields of one message in addition to its body. MessageFields has their defaults."""

    key: bytes | None
    tag: str
    headers: Mapping[str, bytes] | None
    id: str
    corr_offset: int


class MessageFields(NamedTuple):
    """The fields of one message in addition to its body.

    A function that takes `**options: Unpack[FieldOptions]` reads them by `MessageFields(**options)`, which raises a
    TypeError that names an unknown option. That takes 0.3 to 0.5 µs, so the four puts that take no more than 5 µs
    (`Log.append`, and `put` of an embedded Topic, Transaction and Batching) spell these parameters out.
    """

    key: bytes | None = None
    tag: str = ""
    headers: Mapping[str, bytes] | None = None
    id: str = ""
    corr_offset: int = NO_CORR_OFFSET


class MessageOptions(FieldOptions, total=False):
    """Options of every put of one message. `key` decides the partition, unless `partition` is given."""

    partition: int | None


class PutOptions(MessageOptions, total=False):
    """Options of `Topic.put`. A reply to the message goes to the topic `reply_to`."""

    reply_to: str


class ColumnOptions(TypedDict, total=False):
    """The fields of many messages in addition to their bodies. Each is a sequence with one entry for each body."""

    tags: Sequence[str] | None
    keys: Sequence[bytes | None] | None
    ids: Sequence[str] | None
    headers: Sequence[Mapping[str, bytes] | None] | None
    corr_offsets: Sequence[int] | None


class PutManyOptions(ColumnOptions, total=False):
    """Options of `put_many`: the fields of the messages, or `tag` for all of them, and the partition of all."""

    tag: str
    partition: int | None


class GroupOptions(TypedDict, total=False):
    """Options of a group.

    `tag` is the filter. `start` says at which message a new group begins: "start", "end" or a time. The others concern
    queue groups: how long a lease lasts, after how many attempts a message becomes a dead letter, and how long it waits
    between two attempts, at first and at most; whether messages of one key are leased one after the other; and for how
    long a lease is renewed while its message is in hand.
    """

    tag: str | None
    start: str | Edge | datetime | float
    lease: Duration
    attempts_max: int
    backoff: Duration
    backoff_max: Duration
    ordered_by_key: bool
    renew_max: Duration


class BatchingOptions(TypedDict, total=False):
    """When gathered puts are written: after `linger` seconds, or when they reach `batch_bytes` together."""

    linger: Duration
    batch_bytes: int
    buffer_bytes: int
    in_flight: int


# --- Values ---


class Delayed(Protocol):
    """A message that waits until it is due. `id` is text by which any process can cancel it."""

    @property
    def id(self) -> str: ...
    @property
    def due(self) -> datetime: ...
    def cancel(self) -> bool:
        """Cancels it. Returns True if it will never be delivered, and False if it was delivered or cancelled before."""
        ...


class Scheduled(Protocol):
    """A message that waits, as `Topic.scheduled` lists it. `partition` is None if its key decides."""

    @property
    def id(self) -> str: ...
    @property
    def due(self) -> datetime: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def tag(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, bytes]: ...
    @property
    def message_id(self) -> str: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def body(self) -> bytes: ...


class DeadLetter(Protocol):
    """A dead letter: the message as it is in the dead-letter topic, and the topic, partition and number that it came
    from.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def group(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> Message: ...


class PutBackPart(Protocol):
    """The letters of one partition of a dead-letter topic that were put back: all before `start`, and `numbers`."""

    @property
    def partition(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def numbers(self) -> list[int]: ...


class TopicSettings(Protocol):
    """How a topic keeps its messages. docs/topics.md explains each setting."""

    @property
    def partitions(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def durability(self) -> str: ...
    @property
    def block_size(self) -> int: ...
    @property
    def compression(self) -> str: ...
    @property
    def message_size_max(self) -> int: ...
    @property
    def retention_age_s(self) -> float | None: ...
    @property
    def retention_bytes(self) -> int | None: ...
    @property
    def retention_consumed(self) -> bool: ...
    @property
    def dead_letter(self) -> str: ...


class PartitionDescription(Protocol):
    """One partition: its messages are `first` up to `end`; `bytes` is the size of its files. Times are µs."""

    @property
    def partition(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def created(self) -> int: ...
    @property
    def updated(self) -> int: ...


class TopicDescription(Protocol):
    """A topic without its messages. `messages` and `bytes` are sums over the partitions; `updated` is the last put."""

    @property
    def topic(self) -> str: ...
    @property
    def settings(self) -> TopicSettings: ...
    @property
    def partitions(self) -> Sequence[PartitionDescription]: ...
    @property
    def groups(self) -> Sequence[str]: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def updated(self) -> int: ...


class GroupSettings(Protocol):
    """How a group consumes. Durations are in seconds; `start` is "start", "end" or a time in µs."""

    @property
    def mode(self) -> str: ...
    @property
    def tag(self) -> str | None: ...
    @property
    def start(self) -> str | int: ...
    @property
    def lease_s(self) -> float: ...
    @property
    def attempts_max(self) -> int: ...
    @property
    def backoff_s(self) -> float: ...
    @property
    def backoff_s_max(self) -> float: ...
    @property
    def ordered_by_key(self) -> bool: ...
    @property
    def renew_s_max(self) -> float: ...


class GroupPartition(Protocol):
    """A group in one partition: `behind` messages are not done. `next` is None for a queue group."""

    @property
    def partition(self) -> int: ...
    @property
    def next(self) -> int | None: ...
    @property
    def end(self) -> int: ...
    @property
    def behind(self) -> int: ...


class GroupDescription(Protocol):
    """The progress of a group. `members` is None for a queue group, `leased` is None for a stream group."""

    @property
    def topic(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def settings(self) -> GroupSettings: ...
    @property
    def members(self) -> Sequence[str] | None: ...
    @property
    def leased(self) -> int | None: ...
    @property
    def partitions(self) -> Sequence[GroupPartition]: ...
    @property
    def behind(self) -> int: ...


class PreparedTransaction(Protocol):
    """A prepared transaction, which any process may commit or abort.

    `when` is when it was prepared, in µs since the epoch.
    """

    @property
    def id(self) -> str: ...
    @property
    def when(self) -> int: ...
    @property
    def message_count(self) -> int: ...
    @property
    def position_count(self) -> int: ...
    @property
    def ack_count(self) -> int: ...
