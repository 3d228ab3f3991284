"""Errors of Spark, and of options and data that callers pass to it."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors.root import BadInput, WarrenError
from warren.errors.store import StoreError


class SparkError(WarrenError):
    """An error of Spark or of the Java that it runs on."""

    code = "spark"


class JavaMissing(SparkError):
    """There is no Java that `program` can run on. `refused` says which ones exist, and why they cannot be used."""

    code = "java_missing"

    def __init__(
        self, version_min: int, refused: Sequence[str], *, program: str = "Spark", extra: str = "spark"
    ) -> None:
        reasons = f"; {'; '.join(refused)}" if refused else ""
        super().__init__(
            f"{program} needs Java {version_min} or newer, and found none{reasons}; `pip install 'warren[{extra}]'` "
            "installs one, or set JAVA_HOME to your own"
        )
        self.version_min, self.refused = version_min, list(refused)


class JavaUnusable(SparkError):
    """There is a Java, but no directory from which Spark could start it. `refused` says which were tried."""

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
        super().__init__("PySpark is not installed: `pip install 'warren[spark]'` installs it and a Java for it")


class BadPipeline(BadInput):
    """A pipeline file that cannot be run.

    `key` is the place in it, such as `source.topics`, or empty for the whole file.
    """

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
            f"pipeline {pipeline!r} of the store {store} runs already; stop it first, or use another name for this one"
        )
        self.pipeline, self.store = pipeline, store


class PipelineFailed(WarrenError):
    """A pipeline stopped before it was finished. Its committed work stays, and the next run continues from there."""

    code = "pipeline_failed"

    def __init__(self, pipeline: str, reason: str, remedy: str) -> None:
        super().__init__(f"pipeline {pipeline!r} stopped: {reason}; {remedy}")
        self.pipeline, self.reason, self.remedy = pipeline, reason, remedy


class BadOption(BadInput):
    """An option of a Spark query is not valid."""

    code = "bad_option"

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option!r}: {reason}")
        self.option, self.reason = option, reason


class BadColumn(BadInput):
    """A column cannot be used in this way in a Spark query."""

    code = "bad_column"

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r}: {reason}")
        self.column, self.reason = column, reason


class BrokerUnreached(SparkError):
    """A process of Spark, on the named host, gets no answer from the broker of a store."""

    code = "broker_unreached"
    retryable = True

    def __init__(self, servers: str, host: str, reason: str) -> None:
        super().__init__(
            f"the host {host} gets no answer from the broker at {servers}: {reason}; on a cluster the driver and every "
            "worker must reach it under that name"
        )
        self.servers, self.host, self.reason = servers, host, reason


class MalformedValue(StoreError):
    """A value does not have the format that the query names."""

    code = "malformed_value"

    def __init__(self, topic: str, partition: int, number: int, reason: str) -> None:
        super().__init__(f"the value of message {number} of partition {partition} of topic {topic!r} {reason}")
        self.topic, self.partition, self.number, self.reason = topic, partition, number, reason


class BadRow(BadInput):
    """A row of a Spark query cannot become a message. Nothing of its batch is written."""

    code = "bad_row"

    def __init__(self, topic: str | None, reason: str) -> None:
        super().__init__(f"a row for topic {topic!r}: {reason}" if topic is not None else f"a row: {reason}")
        self.topic, self.reason = topic, reason


class NotWrittenYet(StoreError):
    """A batch is decided and will be written once, but not now. The next process that opens the store continues."""

    code = "not_written_yet"
    retryable = True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the batch is in the journal of {path} and could not be written to its topics yet: {reason}. "
            "Solve that and start the query again: no message is written twice"
        )
        self.path, self.reason = path, reason


class DataLost(StoreError):
    """A query cannot continue from its position, or start there, because the messages no longer exist."""

    code = "data_lost"

    def __init__(self, topic: str, partition: int, number: int, first: int, end: int) -> None:
        super().__init__(
            f"message {number} of partition {partition} of topic {topic!r} does not exist: the partition has the "
            f"messages {first} to {end} (not included). Retention removed the missing messages, or the store was "
            "replaced by an older one. Set failOnDataLoss=false to continue with the existing messages, or start with "
            "another checkpoint"
        )
        self.topic, self.partition, self.wanted, self.first, self.end = topic, partition, number, first, end


class TopicLost(StoreError):
    """A topic that a query reads was deleted, and perhaps created again under the same name."""

    code = "topic_lost"

    def __init__(self, topic: str, *, is_replaced: bool) -> None:
        what = "deleted and created again" if is_replaced else "deleted"
        super().__init__(
            f"topic {topic!r} was {what} while a query reads it: messages that the query had not read are lost. "
            "Set failOnDataLoss=false to continue with the existing messages, or start again with another checkpoint"
        )
        self.topic, self.is_replaced = topic, is_replaced
