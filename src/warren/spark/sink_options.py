"""The options of a query that writes: each known, checked, and given as what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from warren.config import APPLICATION_NAME_SIZE_MAX, PARTITIONS_MAX
from warren.errors import BadName, BadOption
from warren.queue.names import checked_name
from warren.spark.given import Given
from warren.spark.options import check_known
from warren.spark.reach import Reach
from warren.spark.store_options import STORE_OPTIONS, reach_of

WRITE_OPTIONS: Final = (
    *STORE_OPTIONS,
    "topic",
    "partitions",
    "valueFormat",
    "messageColumns",
    "txnAppId",
    "txnVersion",
    "checkpointLocation",
    "queryName",
)
WriteFormat = Literal["binary", "text", "json"]
WRITE_FORMATS: Final[tuple[WriteFormat, ...]] = ("binary", "text", "json")
VERSION_MAX: Final = (1 << 63) - 1
APPLICATION_SIZE_MAX: Final = APPLICATION_NAME_SIZE_MAX - 300
"""What is left of the name of an application when the topic is part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a query that writes asks for. `topic` is that of all rows, `partitions` of a topic that has to be made.

    `application` and `version` name a batch for whoever may write it again; both are given, or neither.
    """

    reach: Reach
    topic: str | None
    partitions: int | None
    value_format: WriteFormat
    message_columns: tuple[str, ...] | None
    application: str | None
    version: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
        """What the options mean; BadOption for the first that cannot be taken."""
        check_known(options, WRITE_OPTIONS)
        given = Given({key.lower(): value for key, value in options.items()}, 0)
        names = given.options.get("messagecolumns")
        application, version = _transaction(given, is_stream=is_stream)
        return cls(
            reach=reach_of(given),
            topic=_topic(given),
            partitions=given.whole("partitions", most=PARTITIONS_MAX),
            value_format=given.one_of("valueFormat", WRITE_FORMATS),
            message_columns=None if names is None else tuple(filter(None, map(str.strip, names.lower().split(",")))),
            application=application,
            version=version,
        )


def _topic(given: Given) -> str | None:
    text = given.text("topic")
    try:
        return None if text is None else checked_name("topic", text)
    except BadName as error:
        raise BadOption("topic", str(error)) from None


def _transaction(given: Given, *, is_stream: bool) -> tuple[str | None, int]:
    application, version = given.text("txnAppId"), given.text("txnVersion")
    if application is None and version is None:
        return None, 0
    if is_stream:
        reason = "a stream is known by its query and batch already; leave out txnAppId and txnVersion"
        raise BadOption("txnAppId", reason)
    if application is None or version is None:
        missing = "txnAppId" if application is None else "txnVersion"
        raise BadOption(missing, "it is missing: txnAppId and txnVersion name a batch together; give both, or neither")
    if len(application.encode()) > APPLICATION_SIZE_MAX:
        raise BadOption("txnAppId", f"it has {len(application.encode())} bytes, over {APPLICATION_SIZE_MAX}")
    if not version.isdecimal() or int(version) > VERSION_MAX:
        raise BadOption("txnVersion", f"{version!r}: expected a whole number from 0 on, such as a batch's id")
    return application, int(version)
