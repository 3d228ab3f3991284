"""One tree of errors: few kinds, the facts as attributes, the sentence built inside."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Full
from typing import Final


class WarrenError(Exception):
    """Everything Warren raises on purpose. `code` goes over the wire; `retryable`: trying again may help."""

    code = "error"
    retryable = False


class BadInput(WarrenError, ValueError):
    """The caller gave something that cannot be taken. Nothing was changed."""

    code = "bad_input"


class TooLarge(BadInput):
    """A body, tag, id, key or header is over its limit."""

    code = "too_large"

    def __init__(self, what: str, size: int, size_max: int) -> None:
        super().__init__(f"{what} of {size} bytes is over the limit of {size_max} bytes")
        self.what, self.size, self.size_max = what, size, size_max


class MalformedFilter(BadInput):
    """A tag filter that does not follow the rules of filters."""

    code = "malformed_filter"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"tag filter {text!r}: {reason}")
        self.text, self.reason = text, reason


class BadName(BadInput):
    """A topic, group, producer or queue cannot be called that."""

    code = "bad_name"

    def __init__(self, what: str, name: str, reason: str) -> None:
        super().__init__(f"{what} name {name!r}: {reason}")
        self.what, self.name, self.reason = what, name, reason


class SettingsDiffer(BadInput):
    """A topic or group was opened with settings that are not its own."""

    code = "settings_differ"

    def __init__(self, what: str, setting: str, given: object, kept: object, remedy: str) -> None:
        super().__init__(f"{what} has {setting}={kept!r}, not {given!r}; {remedy}")
        self.what, self.setting, self.given, self.kept = what, setting, given, kept


class UnsupportedByVersion(BadInput):
    """The log's format version has no place for this."""

    code = "unsupported_by_version"

    def __init__(self, what: str, version: int) -> None:
        super().__init__(f"{what}: not possible in a log of format version {version}; use version 2")
        self.what, self.version = what, version


class StorageError(WarrenError):
    """Something about the files of a log."""

    code = "storage"


class NotALog(StorageError):
    """The directory holds something else, or nothing where a log was expected."""

    code = "not_a_log"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a log: {reason}")
        self.path, self.reason = path, reason


GONE: Final = (NotALog, FileNotFoundError)
"""What a log says when somebody removed it, as whoever deletes a topic does."""


class UnknownVersion(StorageError):
    """The log was written in a format that this release does not know."""

    code = "unknown_version"

    def __init__(self, path: str, version: int) -> None:
        super().__init__(f"{path} has format version {version}; this release reads versions 1 and 2")
        self.path, self.version = path, version


class CorruptRecord(StorageError):
    """Bytes that do not check. The place is the file and the position in it."""

    code = "corrupt_record"

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}; `warren log verify` tells more")
        self.path, self.position, self.reason = path, position, reason


class NumberRetired(StorageError):
    """The message was there, and retention removed its block."""

    code = "number_retired"

    def __init__(self, number: int, first: int) -> None:
        super().__init__(f"message {number} was retired; the log now starts at {first}")
        self.number, self.first = number, first


class LogLocked(StorageError):
    """Another writer keeps the log for itself. `pid` is 0 where the holder is not known."""

    code = "log_locked"
    retryable = True

    def __init__(self, path: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is locked for writing by {holder}")
        self.path, self.pid = path, pid


class LogClosed(StorageError):
    """The log was closed, or opened for reading only, or closed itself for writing after a failed sync."""

    code = "log_closed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is closed: {reason}")
        self.path, self.reason = path, reason


class StorageFull(StorageError):
    """There is no room on the disk. Nothing was changed; the same call may succeed later."""

    code = "storage_full"
    retryable = True

    def __init__(self, path: str, size: int) -> None:
        super().__init__(f"no room on the disk for {size} bytes in {path}; free some space and try again")
        self.path, self.size = path, size


class SyncFailed(StorageError):
    """The disk refused to make bytes durable. What waited for it is not acknowledged; reopen the log to go on."""

    code = "sync_failed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} could not be synced ({reason}); the log is closed for writing until it is reopened")
        self.path, self.reason = path, reason


class NotAQueueFile(StorageError):
    """The file is something else than a queue, or was cut down to less than its pointers."""

    code = "not_a_queue_file"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a queue file: {reason}")
        self.path, self.reason = path, reason


class CorruptQueueFile(StorageError):
    """A message of a queue file that cannot be one. Those before it can still be taken."""

    code = "corrupt_queue_file"

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path, self.position, self.reason = path, position, reason


class QueueFileFull(StorageError, Full):
    """The pointers of a queue file cannot reach so far. Nothing was changed; there is room when messages were taken."""

    code = "queue_file_full"
    retryable = True

    def __init__(self, path: str, size: int, size_max: int) -> None:
        super().__init__(f"{path} has no room for {size} more bytes: a queue file holds {size_max} bytes at most")
        self.path, self.size, self.size_max = path, size, size_max


class StoreError(WarrenError):
    """Something about a store: its topics, groups and settings."""

    code = "store"


class NotAStore(StoreError):
    """The directory holds something else."""

    code = "not_a_store"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a store: {reason}")
        self.path, self.reason = path, reason


class CorruptSettings(StoreError):
    """A file of settings cannot be read."""

    code = "corrupt_settings"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read as settings: {reason}")
        self.path, self.reason = path, reason


class StoreClosed(StoreError):
    """The store was closed, or what was asked of belongs to one that was."""

    code = "store_closed"

    def __init__(self, path: str) -> None:
        super().__init__(f"the store {path} is closed; open it again with warren.open()")
        self.path = path


class StoreBusy(StoreError):
    """Another process holds a lock for longer than anybody should."""

    code = "store_busy"
    retryable = True

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is held by another process for too long; try again")
        self.path = path


class NoSuchTopic(StoreError):
    """There is no topic of this name."""

    code = "no_such_topic"

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}")
        self.topic = topic


class NoSuchPartition(BadInput):
    """The topic has fewer partitions than that."""

    code = "no_such_partition"

    def __init__(self, topic: str, partition: int, partition_count: int) -> None:
        super().__init__(f"topic {topic!r} has partitions 0 to {partition_count - 1}, and no partition {partition}")
        self.topic, self.partition, self.partition_count = topic, partition, partition_count


class NoSuchGroup(StoreError):
    """The topic has no group of this name."""

    code = "no_such_group"

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(f"topic {topic!r} has no group {group!r}")
        self.topic, self.group = topic, group


class NoReply(StoreError, TimeoutError):
    """Nobody answered a request in time. The request stays where it was put, and may still be answered."""

    code = "no_reply"
    retryable = True

    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(f"nobody answered a request to topic {topic!r} within {timeout_s:g} s")
        self.topic, self.timeout_s = topic, timeout_s


class TransactionError(StoreError):
    """Something about a transaction, named by its id."""

    code = "transaction"

    def __init__(self, id: str, sentence: str) -> None:
        super().__init__(f"transaction {id!r} {sentence}")
        self.id = id


class NoSuchTransaction(TransactionError):
    """There is no transaction of this id, or it ended so long ago that it was forgotten."""

    code = "no_such_transaction"

    def __init__(self, id: str) -> None:
        super().__init__(id, "is not known: it never was prepared, or ended long ago")


class TransactionAborted(TransactionError):
    """The transaction came to nothing: somebody aborted it, its time ran out, or its process died."""

    code = "transaction_aborted"

    def __init__(self, id: str) -> None:
        super().__init__(id, "was aborted; nothing of it was kept")


class TransactionCommitted(TransactionError):
    """The transaction was committed; that cannot be undone."""

    code = "transaction_committed"

    def __init__(self, id: str) -> None:
        super().__init__(id, "was committed, and can neither be changed nor aborted")


class TransactionExists(TransactionError):
    """The id belongs to a transaction that is open, prepared or committed."""

    code = "transaction_exists"

    def __init__(self, id: str, state: str) -> None:
        super().__init__(id, f"is there already, and {state}")
        self.state = state


class WrongState(TransactionError):
    """The transaction is not in a state in which this can happen to it."""

    code = "wrong_state"

    def __init__(self, id: str, state: str, event: str) -> None:
        super().__init__(id, f"is {state}: no {event} is possible now")
        self.state, self.event = state, event


class ProducerError(StoreError):
    """Something about a producer that numbers its puts."""

    code = "producer"


class ProducerBusy(ProducerError):
    """The producer is open elsewhere, and only one opening at a time can number its puts."""

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
    """A put was given a number that does not follow the last one. Nothing was written."""

    code = "sequence_gap"

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(f"producer {producer!r} was given number {sequence}, and the next one is {expected}")
        self.producer, self.sequence, self.expected = producer, sequence, expected


class FellBehind(NumberRetired):
    """Whoever reads a partition was so slow that retention removed what came next. `seek` says where to go on."""

    code = "fell_behind"

    def __init__(self, topic: str, partition: int, number: int, first: int) -> None:
        StorageError.__init__(
            self,
            f"message {number} of partition {partition} of topic {topic!r} was retired before it was read; "
            f"the partition now starts at {first}",
        )
        self.topic, self.partition, self.number, self.first = topic, partition, number, first


class GroupError(StoreError):
    """Something about a group and its members."""

    code = "group"


class NotOwner(GroupError):
    """Another member owns the partitions, or may do so at any moment. Nothing was changed."""

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
    """Messages are no longer leased to whoever took them: handed out again, given back, or acknowledged already."""

    code = "lease_lost"

    def __init__(self, topic: str, group: str, places: Sequence[tuple[int, int]]) -> None:
        partition, number = places[0]
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        super().__init__(
            f"message {number} of partition {partition} of topic {topic!r}{others} is no longer leased to whoever took "
            f"it from group {group!r}"
        )
        self.topic, self.group, self.places = topic, group, list(places)


class SparkError(WarrenError):
    """Something about Spark and what it runs on."""

    code = "spark"


class JavaMissing(SparkError):
    """There is no Java that Spark can run on. `refused`: what was looked at, and why it cannot be used."""

    code = "java_missing"

    def __init__(self, version_min: int, refused: Sequence[str]) -> None:
        seen = f"; {'; '.join(refused)}" if refused else ""
        super().__init__(
            f"Spark needs Java {version_min} or newer, and there is none{seen}; `pip install 'warren[spark]'` brings "
            "one, or set JAVA_HOME to one of yours"
        )
        self.version_min, self.refused = version_min, list(refused)


class JavaUnusable(SparkError):
    """There is a Java, but no directory from which Spark could start it. `refused`: which were tried, and why not."""

    code = "java_unusable"

    def __init__(self, java: str, refused: Sequence[str]) -> None:
        super().__init__(
            f"Spark cannot start {java}: {'; '.join(refused)}; set XDG_CACHE_HOME to a directory that only you may "
            "write to and that programs may be run from"
        )
        self.java, self.refused = java, list(refused)


class SparkMissing(SparkError):
    """PySpark is not installed."""

    code = "spark_missing"

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: `pip install 'warren[spark]'` brings it, and a Java for it")


class BadPipeline(BadInput):
    """A pipeline file that cannot be run as it is. `key` is where: `source.topics`, or empty for the whole file."""

    code = "bad_pipeline"

    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}" if key else f"{file}: {reason}")
        self.file, self.key, self.reason = file, key, reason


class PipelineBusy(StoreError):
    """The pipeline runs already, in this process or another."""

    code = "pipeline_busy"
    retryable = True

    def __init__(self, pipeline: str, store: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} of the store {store} runs already; stop it first, or give this one another name"
        )
        self.pipeline, self.store = pipeline, store


class PipelineFailed(WarrenError):
    """A pipeline stopped in the middle. What it had committed stays, and the next run goes on from there."""

    code = "pipeline_failed"

    def __init__(self, pipeline: str, reason: str, remedy: str) -> None:
        super().__init__(f"pipeline {pipeline!r} stopped: {reason}; {remedy}")
        self.pipeline, self.reason, self.remedy = pipeline, reason, remedy


class BadOption(BadInput):
    """An option of a Spark query that cannot be taken."""

    code = "bad_option"

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option!r}: {reason}")
        self.option, self.reason = option, reason


class BadColumn(BadInput):
    """A column that a Spark query asks for, and that cannot be given so."""

    code = "bad_column"

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r}: {reason}")
        self.column, self.reason = column, reason


class MalformedValue(StoreError):
    """A value that is not what the query says it is."""

    code = "malformed_value"

    def __init__(self, topic: str, partition: int, number: int, reason: str) -> None:
        super().__init__(f"the value of message {number} of partition {partition} of topic {topic!r} {reason}")
        self.topic, self.partition, self.number, self.reason = topic, partition, number, reason


class BadRow(BadInput):
    """A row of a Spark query that cannot become a message. Nothing of its batch is written."""

    code = "bad_row"

    def __init__(self, topic: str | None, reason: str) -> None:
        super().__init__(f"a row for topic {topic!r}: {reason}" if topic is not None else f"a row: {reason}")
        self.topic, self.reason = topic, reason


class NotWrittenYet(StoreError):
    """A batch is decided and will be written once, but could not be now. Whoever opens the store next goes on."""

    code = "not_written_yet"
    retryable = True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the batch is kept in the journal of {path}, and could not be written to its topics yet: {reason}. "
            "See to that and start the query again: what is written is not written twice"
        )
        self.path, self.reason = path, reason


class DataLost(StoreError):
    """A query cannot go on where it stopped, or where it was told to start: the messages are not there any more."""

    code = "data_lost"

    def __init__(self, topic: str, partition: int, wanted: int, first: int, end: int) -> None:
        super().__init__(
            f"message {wanted} of partition {partition} of topic {topic!r} is not there: the partition has the "
            f"messages {first} to {end} (not included). Retention removed what is missing, or the store was replaced by "
            "an older one. Set failOnDataLoss=false to go on with what is there, or start anew with another checkpoint"
        )
        self.topic, self.partition, self.wanted, self.first, self.end = topic, partition, wanted, first, end


class TopicLost(StoreError):
    """A topic that a query reads was deleted, and perhaps made again under the same name."""

    code = "topic_lost"

    def __init__(self, topic: str, *, is_replaced: bool) -> None:
        what = "deleted and made again" if is_replaced else "deleted"
        super().__init__(
            f"topic {topic!r} was {what} while a query reads it: what the query had not read is gone. "
            "Set failOnDataLoss=false to go on with what is there, or start anew with another checkpoint"
        )
        self.topic, self.is_replaced = topic, is_replaced


class ProtocolError(WarrenError):
    """What the other side of a connection sent cannot be taken."""

    code = "protocol"


class BadFrame(ProtocolError):
    """The size before a frame is negative, or over the limit. What follows cannot be made out: the connection ends."""

    code = "bad_frame"

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"a frame of {size} bytes; from 0 to {size_max} are taken")
        self.size, self.size_max = size, size_max


class MalformedRequest(ProtocolError):
    """The bytes are not what their API key and version say."""

    code = "malformed_request"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason


class UnsupportedRequest(ProtocolError):
    """An API key that is not served, or not in this version."""

    code = "unsupported_request"

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"version {version} of API key {api_key} is not served; ApiVersions tells what is")
        self.api_key, self.version = api_key, version


class BadBatch(ProtocolError):
    """A record batch that a producer sent does not check. Nothing of it was stored."""

    code = "bad_batch"

    def __init__(self, reason: str) -> None:
        super().__init__(f"a record batch that cannot be taken: {reason}")
        self.reason = reason


class KafkaMissing(ProtocolError):
    """What the broker needs of kafka-python is not installed."""

    code = "kafka_missing"

    def __init__(self, what: str) -> None:
        super().__init__(f"kafka-python's description of {what} is not there; install `warren[broker]`")
        self.what = what
