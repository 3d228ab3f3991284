"""Errors of a store: its topics, groups, transactions and producers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.errors.root import BadInput, TooLarge, WarrenError
from warren.errors.storage import NumberRetired, StorageError


class StoreError(WarrenError):
    """An error of a store: its topics, groups and settings."""

    code = "store"


class NotAStore(StoreError):
    """The directory has other content."""

    code = "not_a_store"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a store: {reason}")
        self.path, self.reason = path, reason


class ReadOnlyStore(StoreError):
    """A call would change a store that was opened for reading only. Nothing was changed."""

    code = "read_only_store"

    def __init__(self, path: str) -> None:
        super().__init__(f"the store {path} was opened with read_only=True: nothing can be changed in it")
        self.path = path


class StoreReplicated(StoreError):
    """A program would write to a replica of a store past its master. It may be opened with read_only=True."""

    code = "store_replicated"

    def __init__(self, path: str, address: str) -> None:
        master = f"its master is at {address}" if address else "its master is not known here"
        super().__init__(
            f"the store {path} is replicated, and only its master writes to it: connect to the cluster; {master}"
        )
        self.path, self.address = path, address


class CorruptSettings(StoreError):
    """A file of settings cannot be read."""

    code = "corrupt_settings"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read as settings: {reason}")
        self.path, self.reason = path, reason


class StoreClosed(StoreError):
    """The store was closed, or the object belongs to a store that was."""

    code = "store_closed"

    def __init__(self, path: str) -> None:
        super().__init__(f"the store {path} is closed; open it again with warren.open()")
        self.path = path


class BatchingClosed(StoreError):
    """The batching accepts no more puts: it was closed, or belongs to the parent of this process."""

    code = "batching_closed"

    def __init__(self) -> None:
        super().__init__("this batching is closed; make another one with store.batching()")


class BufferFull(StoreError):
    """Too many bytes wait to be written, and there was no room in time. Nothing was put."""

    code = "buffer_full"
    retryable = True

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(
            f"{size} bytes wait to be written, and the limit is {size_max}; try again, or put fewer bytes at a time"
        )
        self.size, self.size_max = size, size_max


class StoreBusy(StoreError):
    """Another process holds a lock for too long."""

    code = "store_busy"
    retryable = True

    def __init__(self, path: str) -> None:
        super().__init__(f"another process holds {path} for too long; try again")
        self.path = path


class NoSuchTopic(StoreError):
    """The topic does not exist."""

    code = "no_such_topic"

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}")
        self.topic = topic


class IsAQueue(BadInput):
    """The topic belongs to a durable queue. Only the queue's own calls put into it."""

    code = "is_a_queue"

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} is a queue: only store.queue({topic!r}) puts into it")
        self.topic = topic


class NotAQueue(BadInput):
    """An ordinary topic was opened as a queue."""

    code = "not_a_queue"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} is not a queue: it may have messages that are not items; use another name for the queue"
        )
        self.topic = topic


class UnreadableItem(StoreError):
    """The codec of a queue cannot read the oldest item, which stays in the queue. `body` holds the item's bytes.

    A worker that opens the queue with the right codec can get the item; `queue.skip(error)` removes it. `number` is the
    item's number in the queue's topic.
    """

    code = "unreadable_item"

    def __init__(self, queue: str, body: bytes, reason: str, number: int) -> None:
        super().__init__(
            f"an item of {len(body)} bytes of queue {queue!r} cannot be read by the codec that was given: {reason}; "
            "`queue.skip(error)` removes it"
        )
        self.queue, self.body, self.reason, self.number = queue, body, reason, number


class NoSuchPartition(BadInput):
    """The topic has fewer partitions."""

    code = "no_such_partition"

    def __init__(self, topic: str, partition: int, partition_count: int) -> None:
        super().__init__(f"topic {topic!r} has partitions 0 to {partition_count - 1}, but no partition {partition}")
        self.topic, self.partition, self.partition_count = topic, partition, partition_count


class NoSuchGroup(StoreError):
    """The group does not exist."""

    code = "no_such_group"

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(f"topic {topic!r} has no group {group!r}")
        self.topic, self.group = topic, group


class NoReply(StoreError, TimeoutError):
    """No consumer answered a request in time. The request stays in its topic, and may still be answered."""

    code = "no_reply"
    retryable = True

    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(f"no consumer answered a request to topic {topic!r} within {timeout_s:g} s")
        self.topic, self.timeout_s = topic, timeout_s


class TransactionError(StoreError):
    """An error of a transaction. It names the transaction by its id."""

    code = "transaction"

    def __init__(self, id: str, sentence: str) -> None:
        super().__init__(f"transaction {id!r} {sentence}")
        self.id = id


class JournalDamaged(StoreError):
    """The journal of a store's transactions cannot be read. Everything except transactions still works."""

    code = "journal_damaged"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the journal of transactions is damaged: {reason}; stop the programs that use the store; "
            "then `warren store repair` sets the journal aside and reports which transactions were in doubt"
        )
        self.reason = reason


class StoreInUse(StoreError):
    """The store is open in another program, and the call needs exclusive access."""

    code = "store_in_use"

    def __init__(self, path: str, count: int) -> None:
        super().__init__(f"{path} is open in {count} other program{'s' * (count > 1)}; stop them first")
        self.path, self.count = path, count


class NoSuchTransaction(TransactionError):
    """The transaction does not exist, or ended so long ago that it was forgotten."""

    code = "no_such_transaction"

    def __init__(self, id: str) -> None:
        super().__init__(id, "is not known: it was never prepared, or it ended long ago")


class TransactionAborted(TransactionError):
    """The transaction was aborted: by a caller, because its time ran out, or because its process died."""

    code = "transaction_aborted"

    def __init__(self, id: str) -> None:
        super().__init__(id, "was aborted; nothing of it was kept")


class TransactionCommitted(TransactionError):
    """The transaction was committed; that cannot be undone."""

    code = "transaction_committed"

    def __init__(self, id: str) -> None:
        super().__init__(id, "was committed; it can no longer be changed or aborted")


class TransactionExists(TransactionError):
    """The id belongs to a transaction that is open, prepared or committed."""

    code = "transaction_exists"

    def __init__(self, id: str, state: str) -> None:
        super().__init__(id, f"exists already, and is {state}")
        self.state = state


class WrongState(TransactionError):
    """The event is not possible in the current state of the transaction."""

    code = "wrong_state"

    def __init__(self, id: str, state: str, event: str) -> None:
        super().__init__(id, f"is {state}: no {event} is possible now")
        self.state, self.event = state, event


class ProducerError(StoreError):
    """An error of a producer that numbers its puts."""

    code = "producer"


class ProducerBusy(ProducerError):
    """The producer is open elsewhere. Only one opening at a time can number its puts."""

    code = "producer_busy"
    retryable = True

    def __init__(self, producer: str) -> None:
        super().__init__(f"producer {producer!r} is open elsewhere; it is free when that closes or its process ends")
        self.producer = producer


class ProducerClosed(ProducerError):
    """The producer was closed, or belongs to the parent of this process."""

    code = "producer_closed"

    def __init__(self, producer: str) -> None:
        super().__init__(f"producer {producer!r} is closed; open it again with store.producer()")
        self.producer = producer


class SequenceGap(ProducerError):
    """The number of a put does not follow the last one. Nothing was written."""

    code = "sequence_gap"

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(f"producer {producer!r} got number {sequence}, but the next one is {expected}")
        self.producer, self.sequence, self.expected = producer, sequence, expected


class FellBehind(NumberRetired):
    """The reader of a partition was so slow that retention removed the next messages. `seek` sets where to continue."""

    code = "fell_behind"

    def __init__(self, topic: str, partition: int, number: int, first: int) -> None:
        StorageError.__init__(
            self,
            f"message {number} of partition {partition} of topic {topic!r} was retired before it was read; "
            f"the partition now starts at {first}",
        )
        self.topic, self.partition, self.number, self.first = topic, partition, number, first


class MessageTooLarge(TooLarge):
    """A message is too large for an answer of the broker. The reader's position did not move past it.

    A stream group skips it with `seek(number + 1, partition)`, and a read by number starts after it. A worker of a
    queue group holds its lease (`attempt` is above 0) and settles it with `reject(error.message)` or
    `ack(error.message)`.
    """

    code = "message_too_large"
    message: Any = None
    """For a worker of a queue group: the Message without its body, key and headers. That is enough to settle it."""

    def __init__(self, topic: str, partition: int, number: int, attempt: int, reason: str) -> None:
        way = "reject or ack the `message` of this error" if attempt else f"continue from number {number + 1}"
        BadInput.__init__(
            self,
            f"message {number} of partition {partition} of topic {topic!r} is too large for an answer: {reason}; "
            f"to skip it, {way}",
        )
        self.topic, self.partition, self.number, self.attempt = topic, partition, number, attempt


class GroupError(StoreError):
    """An error of a group and its members."""

    code = "group"


class NotOwner(GroupError):
    """Another member owns the partitions, or may own them at any moment. Nothing was changed."""

    code = "not_owner"

    def __init__(self, topic: str, group: str, partitions: Sequence[int]) -> None:
        named = ", ".join(map(str, partitions))
        super().__init__(f"this member of group {group!r} of topic {topic!r} does not own partition {named}")
        self.topic, self.group, self.partitions = topic, group, list(partitions)


class GroupClosed(GroupError):
    """This member of the group was closed."""

    code = "group_closed"

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(f"this member of group {group!r} of topic {topic!r} is closed; open it again with group()")
        self.topic, self.group = topic, group


class LeaseLost(GroupError):
    """The caller's lease has ended: the message was handed out again, given back, or acknowledged already."""

    code = "lease_lost"

    def __init__(self, topic: str, group: str, places: Sequence[tuple[int, int]]) -> None:
        partition, number = places[0]
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        super().__init__(
            f"message {number} of partition {partition} of topic {topic!r}{others} is no longer leased to the worker "
            f"that took it from group {group!r}"
        )
        self.topic, self.group, self.places = topic, group, list(places)
