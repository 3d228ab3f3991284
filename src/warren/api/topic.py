"""A topic, its partitions and its groups, with the methods that every kind of store has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, Unpack, overload

from warren.api.values import (
    DeadLetter,
    Delayed,
    GroupDescription,
    GroupOptions,
    GroupSettings,
    PutBackPart,
    PutManyOptions,
    PutOptions,
    Scheduled,
    TopicDescription,
    TopicSettings,
    When,
    Where,
)
from warren.clock import Duration
from warren.message import Message, Place, TopicReceipt

if TYPE_CHECKING:
    import pyarrow


class Closing(Protocol):
    """An object with a `close`, which the end of a `with` block calls. Closing twice does no harm."""

    def close(self) -> object: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Log(Protocol):
    """The messages of one partition, for reading. Any thread may use it."""

    @property
    def first(self) -> int:
        """The number of the first message that still exists."""
        ...

    @property
    def end(self) -> int:
        """The number that the next message will get."""
        ...

    def at(self, number: int) -> Message | None:
        """Returns message `number`; None if it is past the end, or in a batch that cannot be read.

        Raises NumberRetired if retention has removed it.
        """
        ...

    def read(
        self, number: int, *, limit: int = ..., bytes_max: int | None = ..., tag: str | None = ...
    ) -> list[Message]:
        """Returns up to `limit` messages from `number` on that pass the filter, with up to `bytes_max` bytes in total.

        The first message is returned even if it is larger than `bytes_max`. Past the end the list is empty. Raises
        NumberRetired if retention has removed message `number`.
        """
        ...

    def backwards(self, number: int | None = ...) -> Iterator[Message]:
        """Yields the messages from `number`, or from the last one, down to the first."""
        ...

    def last(self, count: int = ...) -> list[Message]:
        """Returns the last `count` messages, in order."""
        ...

    def find_time(self, when: When) -> int:
        """Returns the number of the first message at or after `when`; `end` if there is none."""
        ...

    def wait(self, number: int, seconds: Duration) -> bool:
        """Waits up to `seconds` until message `number` exists. Returns whether it does."""
        ...

    def scan(
        self,
        start: int | None = ...,
        end: int | None = ...,
        *,
        columns: Sequence[str] | None = ...,
        tag: str | None = ...,
        since: When | None = ...,
        until: When | None = ...,
        rows_min: int = ...,
        skips: bool = ...,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields the messages from `start` up to `end`, and from `since` up to `until`, that pass the filter, as Arrow.

        `columns` chooses among number, offset, timestamp, id, tag, key, headers, corr_offset and body. Batches of fewer
        than `rows_min` messages are joined. With `skips`, batches without a matching tag are neither read nor checked.
        """
        ...


class StreamGroup(Closing, Protocol):
    """One member of a stream group (consumer group). The members share the partitions of the topic.

    Each partition has one owner at a time, which reads it in order. If the partition goes to another member, that
    member reads again what was not committed.
    """

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str:
        """The id of this member."""
        ...

    @property
    def partitions(self) -> list[int]:
        """The partitions that this member owns now."""
        ...

    def read(self, limit: int = ..., wait: Duration = ...) -> list[Message]:
        """Returns up to `limit` messages of the partitions that this member owns, ordered within each partition.

        If there is none, waits up to `wait` seconds for one. Raises FellBehind if retention removed the next message:
        `seek` sets where to continue. Raises GroupClosed after `close`.
        """
        ...

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the member is closed. `commit` then commits up to the last message that was yielded."""
        ...

    def commit(self, positions: Mapping[int, int] | None = ...) -> dict[int, int]:
        """Commits what this member has read, or all messages before `positions`. Returns the committed positions.

        A position below the committed one changes nothing; `seek` goes back.
        Raises NotOwner, and commits nothing, if `positions` names a partition of another member.
        """
        ...

    def seek(self, to: Where, partition: int | None = ...) -> dict[int, int]:
        """Moves to a number, to the first message at or after a time, to START or to END. Returns the new positions.

        Moves in `partition`, or in all partitions of this member. Raises NotOwner if another member owns it.
        """
        ...

    def rewind(self) -> None:
        """Moves back to the committed positions, so that messages that were read and not committed are read again."""
        ...

    def members(self) -> list[str]:
        """Returns the ids of all living members of the group, in all processes."""
        ...

    def position(self, partition: int) -> int:
        """Returns the number that the group reads next in one partition."""
        ...

    def positions(self) -> dict[int, int]:
        """Returns `position` of every partition."""
        ...

    def lag(self) -> dict[int, int]:
        """Returns, by partition, how many messages are not committed, including those that the filter omits."""
        ...


class QueueGroup(Closing, Protocol):
    """One worker of a queue group. Workers take messages one by one, each under a lease (visibility timeout)."""

    @property
    def name(self) -> str: ...

    @overload
    def take(self, limit: None = ..., wait: Duration = ..., *, renew: bool = ...) -> Message | None: ...
    @overload
    def take(self, limit: int, wait: Duration = ..., *, renew: bool = ...) -> list[Message]: ...
    def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Message | list[Message] | None:
        """Leases a message, or up to `limit` of them, and returns them. Waits up to `wait` seconds for the first.

        Returns None, or an empty list, if there is none. `attempt` of a message counts how often it was taken. Leases
        are renewed while the caller refers to one of the messages; with `renew=False` they run out.
        """
        ...

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the group or its store is closed. The caller acknowledges each."""
        ...

    def ack(self, message: Message) -> None:
        """Marks the message as done, permanently. Raises LeaseLost if it was handed out again or is done already."""
        ...

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Marks these messages as done.

        Raises LeaseLost if some are no longer leased; the others are done nevertheless.
        """
        ...

    def nack(self, message: Message, delay: Duration | None = ..., reason: str = ...) -> None:
        """Returns the message to the group. It is handed out again after `delay` seconds, or after the group's backoff.

        After `attempts_max` attempts it becomes a dead letter, with the reason. Raises LeaseLost as `ack` does.
        """
        ...

    def reject(self, message: Message, reason: str = ...) -> None:
        """Makes the message a dead letter, with the reason. Raises LeaseLost as `ack` does."""
        ...

    def extend(self, message: Message, seconds: Duration) -> None:
        """Makes the lease end `seconds` from now; it is no longer renewed. Raises LeaseLost as `ack` does."""
        ...

    def extend_many(self, messages: Sequence[Message], seconds: Duration) -> None:
        """Extends several leases. Raises LeaseLost if some are no longer leased; the others are extended."""
        ...

    @property
    def dead(self) -> Topic:
        """The topic of the dead letters. Created if it does not exist."""
        ...

    def redrive(self, limit: int | None = ..., *, numbers: Mapping[int, Sequence[int]] | None = ...) -> int:
        """Puts dead letters of this group back into their topic, each once. Returns how many.

        All of them, up to `limit`, or those with these `numbers` by partition of the dead-letter topic.
        """
        ...

    def lag(self) -> dict[int, int]:
        """Returns, by partition, how many messages are not done, including those that the filter omits."""
        ...

    def in_flight(self) -> int:
        """Returns how many messages are leased, or held by a transaction."""
        ...


class Broadcast(Protocol):
    """One listener of a topic, without a stored position. One thread at a time."""

    def read(self, limit: int = ..., wait: Duration = ...) -> list[Message]:
        """Returns up to `limit` messages. If there is none, waits up to `wait` seconds for one.

        Raises FellBehind if retention removed the next message; the next call continues with the first one that exists.
        """
        ...

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until none came for the `wait` that was passed to `Topic.broadcast`;
        without it, never ends.
        """
        ...


class Topic(Protocol):
    """A topic: partitions with a name and settings.

    Any thread and any number of processes may use it at the same time.
    """

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> TopicSettings: ...
    @property
    def partition_count(self) -> int: ...
    def partition(self, number: int) -> Log:
        """Returns one partition. Raises NoSuchPartition if it does not exist."""
        ...

    @overload
    def put(
        self, body: bytes, *, delay: None = None, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> TopicReceipt: ...
    @overload
    def put(
        self, body: bytes, *, delay: Duration, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> Delayed: ...
    @overload
    def put(self, body: bytes, *, delay: None = None, deliver_at: When, **options: Unpack[PutOptions]) -> Delayed: ...
    def put(
        self,
        body: bytes,
        *,
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **options: Unpack[PutOptions],
    ) -> TopicReceipt | Delayed:
        """Puts one message, and returns its receipt when it is as durable as the settings of the topic say.

        The message goes to the partition of its `key`, or to `partition`; without both, partitions take turns. With a
        `delay`, or a time `deliver_at`, it waits until then, and the returned handle can cancel it.

        Raises TooLarge if the body is over the limit of the topic, NoSuchPartition if there is no such partition,
        NoSuchTopic if the topic was deleted, and BadInput if a parameter has the wrong type.
        """
        ...

    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: None = None, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> Sequence[Place]: ...
    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: Duration, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> Sequence[Delayed]: ...
    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: None = None, deliver_at: When, **options: Unpack[PutManyOptions]
    ) -> Sequence[Delayed]: ...
    def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **options: Unpack[PutManyOptions],
    ) -> Sequence[Place] | Sequence[Delayed]:
        """Puts messages together, with one commit for each partition. Returns the place of each, in order.

        Without keys all go to one partition. With a `delay` or `deliver_at` they wait until then, and each handle can
        cancel its message. Raises the errors of `put`.
        """
        ...

    def request(
        self,
        body: bytes,
        *,
        timeout: Duration = ...,
        key: bytes | None = ...,
        tag: str = ...,
        headers: Mapping[str, bytes] | None = ...,
    ) -> Message:
        """Puts a message, waits until a consumer answers with `message.reply`, and returns the answer.

        Raises NoReply after `timeout` seconds. Answers go to the topic `<topic>.replies`.
        """
        ...

    def scheduled(self, limit: int | None = ...) -> Iterator[Scheduled]:
        """Yields the messages that wait until they are due, the earliest first, up to `limit`."""
        ...

    def cancel(self, handle_id: str) -> bool:
        """Cancels a delayed message by the id of its handle. Returns what `Delayed.cancel` returns."""
        ...

    def last(self, count: int = ...) -> list[Message]:
        """Returns the last `count` messages of all partitions, by time."""
        ...

    def since(self, when: When, *, tag: str | None = ...) -> Iterator[Message]:
        """Yields the existing messages from `when` on, by time over all partitions."""
        ...

    def between(self, start: When, end: When, *, tag: str | None = ...) -> Iterator[Message]:
        """Yields the messages from `start` on and before `end`, by time over all partitions."""
        ...

    @overload
    def group(self, name: str, *, mode: Literal["stream"] = ..., **options: Unpack[GroupOptions]) -> StreamGroup: ...
    @overload
    def group(self, name: str, *, mode: Literal["queue"], **options: Unpack[GroupOptions]) -> QueueGroup: ...
    def group(
        self, name: str, *, mode: Literal["stream", "queue"] = "stream", **options: Unpack[GroupOptions]
    ) -> StreamGroup | QueueGroup:
        """Returns a new member of the group `name`, and creates the group if it does not exist.

        Raises SettingsDiffer if the group has another mode, or settings other than those given.
        """
        ...

    def broadcast(
        self, *, tag: str | None = ..., start: Where | Mapping[int, int] | None = ..., wait: Duration | None = ...
    ) -> Broadcast:
        """Returns a listener for all messages that are put from now on, or from `start` on."""
        ...

    def groups(self) -> list[str]:
        """Returns the names of the groups, sorted."""
        ...

    def group_settings(self, name: str) -> GroupSettings:
        """Returns the settings of a group. Raises NoSuchGroup if it does not exist."""
        ...

    def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """Changes settings of a group, for every process, and returns them. Raises NoSuchGroup if it does not exist."""
        ...

    def describe_group(self, name: str) -> GroupDescription:
        """Returns the progress of a group, without joining it. Raises NoSuchGroup if it does not exist."""
        ...

    def delete_group(self, name: str) -> None:
        """Removes a group with its positions and leases. Raises NoSuchGroup if it does not exist."""
        ...

    def dead_letters(self, group: str | None = ...) -> Iterator[DeadLetter]:
        """Yields the dead letters of a group, or of all groups, that were not put back, the oldest first."""
        ...

    def put_back(self, group: str) -> Sequence[PutBackPart]:
        """Returns which dead letters of a group were put back, by partition of the dead-letter topic."""
        ...

    def describe(self) -> TopicDescription:
        """Returns the current settings, partitions and groups of the topic. No message is read."""
        ...

    def refresh(self) -> None:
        """Applies settings that other processes changed, such as added partitions."""
        ...

    def configure(self, **changes: Any) -> TopicSettings:
        """Changes settings of the topic, for every process, and returns them."""
        ...

    def retire(self) -> None:
        """Removes the messages that the settings no longer keep."""
        ...
