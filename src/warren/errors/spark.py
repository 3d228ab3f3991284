"""Errors of Spark, and of what callers ask of it."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors.root import BadInput, WarrenError
from warren.errors.store import StoreError


class SparkError(WarrenError):
    """An error of Spark and what it runs on."""

    code = "spark"


class JavaMissing(SparkError):
    """There is no Java that `program` can run on. `refused` says which ones were found, and why they cannot be used."""

    code = "java_missing"

    def __init__(
        self, version_min: int, refused: Sequence[str], *, program: str = "Spark", extra: str = "spark"
    ) -> None:
        seen = f"; {'; '.join(refused)}" if refused else ""
        super().__init__(
            f"{program} needs Java {version_min} or newer, and there is none{seen}; `pip install 'warren[{extra}]'` "
            "brings one, or set JAVA_HOME to one of yours"
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
        super().__init__("PySpark is not installed: `pip install 'warren[spark]'` brings it, and a Java for it")


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
    """An option of a Spark query that is not valid."""

    code = "bad_option"

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option!r}: {reason}")
        self.option, self.reason = option, reason


class BadColumn(BadInput):
    """A column that a Spark query cannot have in this way."""

    code = "bad_column"

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column!r}: {reason}")
        self.column, self.reason = column, reason


class BrokerUnreached(SparkError):
    """A process of Spark, on the host that is named, gets no answer from the broker of a store."""

    code = "broker_unreached"
    retryable = True

    def __init__(self, servers: str, host: str, reason: str) -> None:
        super().__init__(
            f"the host {host} gets no answer from the broker at {servers}: {reason}; on a cluster the driver and every "
            "worker must reach it under that name"
        )
        self.servers, self.host, self.reason = servers, host, reason


class MalformedValue(StoreError):
    """A value that does not have the format that the query says."""

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
    """A batch is decided and will be written once, but not now. The next process that opens the store goes on."""

    code = "not_written_yet"
    retryable = True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the batch is kept in the journal of {path}, and could not be written to its topics yet: {reason}. "
            "See to that and start the query again: what is written is not written twice"
        )
        self.path, self.reason = path, reason


class DataLost(StoreError):
    """A query cannot go on from its position, or start there, because the messages do not exist any more."""

    code = "data_lost"

    def __init__(self, topic: str, partition: int, number: int, first: int, end: int) -> None:
        super().__init__(
            f"message {number} of partition {partition} of topic {topic!r} is not there: the partition has the "
            f"messages {first} to {end} (not included). Retention removed what is missing, or the store was replaced "
            "by an older one. Set failOnDataLoss=false to go on with what is there, or start with another checkpoint"
        )
        self.topic, self.partition, self.wanted, self.first, self.end = topic, partition, number, first, end


class TopicLost(StoreError):
    """A topic that a query reads was deleted, and perhaps made again under the same name."""

    code = "topic_lost"

    def __init__(self, topic: str, *, is_replaced: bool) -> None:
        what = "deleted and made again" if is_replaced else "deleted"
        super().__init__(
            f"topic {topic!r} was {what} while a query reads it: what the query had not read is gone. "
            "Set failOnDataLoss=false to go on with what is there, or start again with another checkpoint"
        )
        self.topic, self.is_replaced = topic, is_replaced
