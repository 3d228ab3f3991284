"""The options of a query that writes: their table, and the values of one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from warren.errors import BadOption
from warren.limits import PARTITIONS_MAX
from warren.queue.state.settings import checked_name
from warren.settings import Count, ListOf, OneOf, Parsed, Setting, Text
from warren.spark.store_access.access import StoreAccess
from warren.spark.store_access.options import STORE_OPTIONS, access_of
from warren.spark.store_access.raw_options import RawOptions, option_table
from warren.transaction.coordinator import APPLICATION_NAME_SIZE_MAX

WriteFormat = Literal["binary", "text", "json"]
WRITE_FORMATS: Final[tuple[WriteFormat, ...]] = ("binary", "text", "json")
APPLICATION_SIZE_MAX: Final = APPLICATION_NAME_SIZE_MAX - 300
"""The limit for the name of an application. It leaves room for the topic in the same name."""


def _topic(text: str) -> str:
    return checked_name("topic", text)


WRITE_OPTIONS: Final = option_table(
    [
        *STORE_OPTIONS.values(),
        Setting(
            "topic",
            Parsed("the name of a topic", _topic),
            None,
            "the topic of every row; created if it does not exist",
        ),
        Setting(
            "partitions",
            Count(1, PARTITIONS_MAX),
            None,
            "the number of partitions of a new topic",
        ),
        Setting(
            "valueFormat",
            OneOf(WRITE_FORMATS, ignores_case=True),
            WRITE_FORMATS[0],
            "`binary` (the default), `text`, or `json`: the columns become a JSON object",
        ),
        Setting(
            "messageColumns",
            ListOf(Text(), "names of columns"),
            None,
            "with `valueFormat=json`: which columns belong to the message, and are not fields of the value",
        ),
        Setting(
            "txnAppId",
            Text(),
            None,
            "of a batch: the application that writes. Together with `txnVersion` it identifies the batch",
        ),
        Setting(
            "txnVersion",
            Count(),
            None,
            "of a batch: a number that grows with each batch of the application",
        ),
        Setting("checkpointLocation", Text(), None, "of a stream: Spark's own option"),
        Setting("queryName", Text(), None, "of a stream: Spark's own option"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a query that writes. `topic` is that of all rows, `partitions` that of a new topic.

    `application` and `version` name a batch that may be written again; both are set, or neither.
    """

    access: StoreAccess
    topic: str | None
    partitions: int | None
    value_format: WriteFormat
    message_columns: tuple[str, ...] | None
    application: str | None
    version: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
        """Parses the options. Raises BadOption for the first that cannot be used."""
        raw = RawOptions.of(WRITE_OPTIONS, options)
        raw.check_names()
        columns = raw.texts.get("messagecolumns")
        application, version = _transaction(raw, is_stream=is_stream)
        return cls(
            access=access_of(raw),
            topic=raw.value("topic"),
            partitions=raw.value("partitions"),
            value_format=raw.value("valueFormat"),
            # An empty text names no column, while a missing option leaves the choice to the sink.
            message_columns=None if columns is None else WRITE_OPTIONS.parse("messageColumns", columns.lower()),
            application=application,
            version=version,
        )


def _transaction(raw: RawOptions, *, is_stream: bool) -> tuple[str | None, int]:
    application, version = raw.text("txnAppId"), raw.text("txnVersion")
    if application is None and version is None:
        return None, 0
    if is_stream:
        reason = "a stream is identified by its query and batch; omit txnAppId and txnVersion"
        raise BadOption("txnAppId", reason)
    if application is None or version is None:
        missing = "txnAppId" if application is None else "txnVersion"
        raise BadOption(missing, "it is missing: txnAppId and txnVersion name a batch together; set both, or neither")
    if len(application.encode()) > APPLICATION_SIZE_MAX:
        raise BadOption("txnAppId", f"it has {len(application.encode())} bytes, over {APPLICATION_SIZE_MAX}")
    return application, raw.value("txnVersion")
