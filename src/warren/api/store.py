"""A store, its transactions and its batching, with the methods that every kind of store has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

from warren.api.topic import Closing, QueueGroup, StreamGroup, Topic
from warren.api.values import (
    BatchingOptions,
    MessageOptions,
    PreparedTransaction,
    PutManyOptions,
    TopicDescription,
    TopicSettings,
    When,
)
from warren.clock import Duration
from warren.message import Message, Place

if TYPE_CHECKING:
    import pyarrow


class Transaction(Protocol):
    """Puts, positions and acknowledgements that happen together or not at all. Any thread may use it.

    The end of a `with` block commits it, and an exception aborts it. A prepared transaction stays prepared.
    """

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str:
        """The current state: "open", "prepared", "committed", "done" or "aborted"."""
        ...

    def put(
        self,
        topic: str | Topic,
        body: bytes,
        *,
        delay: Duration | None = ...,
        deliver_at: When | None = ...,
        **options: Unpack[MessageOptions],
    ) -> None:
        """Puts one message when the transaction is committed. The topic is created now if it does not exist.

        A `delay` counts from now. Raises TransactionAborted if the transaction ran out of time or was aborted.
        """
        ...

    def put_many(self, topic: str | Topic, bodies: Sequence[bytes], **options: Unpack[PutManyOptions]) -> None:
        """Puts messages together when the transaction is committed. Without keys all go to one partition."""
        ...

    def put_columns(self, topic: str | Topic, batch: pyarrow.RecordBatch, *, partition: int | None = ...) -> None:
        """Puts the rows of an Arrow record batch when the transaction is committed."""
        ...

    def ack(self, group: QueueGroup, messages: Message | Sequence[Message]) -> None:
        """Acknowledges messages of a queue group of the same store when the transaction is committed.

        If one of them is no longer leased then, `commit` raises LeaseLost and nothing happens.
        """
        ...

    def commit(self, group: StreamGroup | None = ..., positions: Mapping[int, int] | None = ...) -> None:
        """Without a group: commits. All changes are in their topics when this returns.

        With a group of the same store: adds to the transaction the positions up to which the group read, or
        `positions`. Raises NotOwner if a partition went to another member since it was read.
        """
        ...

    def prepare(self) -> None:
        """Stores the transaction, so that any process can commit or abort it by its id, also after a crash."""
        ...

    def abort(self) -> None:
        """Ends the transaction: none of its changes happen."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class PutFuture(Protocol):
    """The place of a message that is about to be written, as a future."""

    def done(self) -> bool:
        """Returns whether the message was written or failed."""
        ...

    def result(self, timeout: Duration | None = ...) -> Place:
        """Returns the place when the message is written. Raises the error if it could not be written.

        Raises TimeoutError after `timeout` seconds.
        """
        ...

    def exception(self, timeout: Duration | None = ...) -> Exception | None:
        """Returns the error if the message could not be written, and None if it was. Waits as `result` does."""
        ...

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        """Calls `call` with this future when it is done, in the thread that wrote the message."""
        ...


class Batching(Closing, Protocol):
    """Gathers puts, and writes those of one partition together in the background. Any thread may use it."""

    def put(self, topic: Any, body: bytes, *, wait: Duration = ..., **options: Unpack[MessageOptions]) -> PutFuture:
        """Puts one message to `topic`, which is a name or a topic of the same store.

        Returns a future of the place of the message, done when it is as durable as the topic's settings say.

        Raises BufferFull if there is no room for it after `wait` seconds.
        """
        ...

    def flush(self, wait: Duration = ...) -> bool:
        """Writes all puts. Returns whether they were written within `wait` seconds."""
        ...

    def close(self, wait: Duration = ...) -> bool:
        """Writes all puts, and accepts no more. Returns whether they were written within `wait` seconds."""
        ...


class Store(Closing, Protocol):
    """A store: a directory of topics, embedded or behind a broker. Any thread may use it."""

    @property
    def id(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...
    def topic(self, name: str, partitions: int | None = ..., **settings: Any) -> Topic:
        """Returns the topic. Creates it if it does not exist, with one partition unless `partitions` names another
        number.

        Raises SettingsDiffer if it exists with settings other than those given.
        """
        ...

    def existing_topic(self, name: str) -> Topic:
        """Returns the topic. Raises NoSuchTopic if it does not exist."""
        ...

    def has_topic(self, name: str) -> bool:
        """Returns whether the topic exists."""
        ...

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        ...

    def describe(self, name: str) -> TopicDescription:
        """Returns `Topic.describe` of a topic. Raises NoSuchTopic if it does not exist."""
        ...

    def configure_topic(self, name: str, changes: Mapping[str, Any]) -> TopicSettings:
        """Changes settings of a topic, and returns them. Raises NoSuchTopic if it does not exist."""
        ...

    def delete_topic(self, name: str) -> None:
        """Removes a topic with its messages and groups. Raises NoSuchTopic if it does not exist."""
        ...

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """Returns an object that gathers puts and writes them together in the background."""
        ...

    def transaction(
        self, timeout: Duration = ..., id: str | None = ..., prepared_timeout: Duration | None = ...
    ) -> Transaction:
        """Begins a transaction. It is aborted if it is still open after `timeout` seconds.

        Once prepared it waits for a decision: for `prepared_timeout` seconds, or without a limit if that is None.
        Raises TransactionExists if another transaction has this `id`, unless that one was aborted.
        """
        ...

    def commit(self, id: str) -> str:
        """Commits a prepared transaction, and returns "done". If it was committed before, nothing changes.

        Returns "committed" if it is decided and another process completes it. Raises TransactionAborted or
        NoSuchTransaction if it cannot be committed.
        """
        ...

    def abort(self, id: str) -> str:
        """Aborts a prepared transaction, and returns "aborted". If it was aborted before, nothing changes."""
        ...

    def transaction_state(self, id: str) -> str:
        """Returns the state of a transaction; "unknown" if it does not exist or ended long ago."""
        ...

    def commit_batch(self, application: str, version: int, ids: Sequence[str]) -> str:
        """Commits prepared transactions together, as the step of `application` to `version`, and returns "done".

        After a crash all of them happened, or none. If the version is not above the last one of the application, they
        are a repetition: they are aborted, and "done" is returned again.
        """
        ...

    def commit_all(self, ids: Sequence[str]) -> str:
        """Commits prepared transactions together, and returns "done". After a crash all of them happened, or none."""
        ...

    def last_version(self, application: str) -> int | None:
        """Returns the version of the last `commit_batch` of an application; None if it is not known."""
        ...

    def abort_prepared(self, prefix: str, before: str | None = ...) -> list[str]:
        """Aborts the prepared transactions whose id starts with `prefix` and sorts before `before`. Returns the ids."""
        ...

    @property
    def last_failure(self) -> str:
        """Returns why the last decided transaction that failed could not be completed; empty if none failed."""
        ...

    def recover(self) -> Sequence[PreparedTransaction]:
        """Completes committed transactions, and returns those that wait for a decision, the oldest first."""
        ...
