"""The options of a query that reads: their table, and the values of one query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadOption
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.protocol.native_schemas import SPARK_TASKS_MAX
from warren.queue.state.settings import checked_name
from warren.settings import Count, Flag, ListOf, OneOf, Parsed, Setting, Text, refused, regular_expression
from warren.spark.read.bounds import EARLIEST, LATEST, Bound, offsets_bound, time_bound, times_bound
from warren.spark.read.topic_choice import TopicChoice
from warren.spark.store_access.access import StoreAccess
from warren.spark.store_access.options import STORE_OPTIONS, access_of
from warren.spark.store_access.raw_options import RawOptions, option_table
from warren.storage.format.tags import TagFilter

ValueFormatName = Literal["binary", "json", "csv", "text"]
Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
VALUE_FORMATS: Final[tuple[ValueFormatName, ...]] = ("binary", "json", "csv", "text")
MODES: Final[tuple[Mode, ...]] = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def _topic(text: str) -> str:
    return checked_name("topic", text)


def _group(text: str) -> str:
    return checked_name("group", text, GROUP_NAME_SIZE_MAX)


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        data = json.loads(text)
        assigned = {str(topic): tuple(sorted(set(partitions))) for topic, partitions in data.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        assigned = {}
    numbers = [number for partitions in assigned.values() for number in partitions]
    if not assigned or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise refused('JSON such as {"orders": [0, 1]}', text)
    return {_topic(topic): partitions for topic, partitions in assigned.items()}


TOPICS: Final = ListOf(Parsed("the name of a topic", _topic), "names of topics, with commas between them", least=1)
READ_OPTIONS: Final = option_table(
    [
        *STORE_OPTIONS.values(),
        Setting("topics", TOPICS, None, "names, separated by commas"),
        Setting(
            "topicsPattern",
            regular_expression(),
            None,
            "a regular expression for whole names; topics that are created later are read too",
        ),
        Setting("subscribe", TOPICS, None, "Kafka's name for `topics`"),
        Setting("subscribePattern", regular_expression(), None, "Kafka's name for `topicsPattern`"),
        Setting(
            "assign",
            Parsed('JSON such as {"orders": [0, 1]}', _assigned),
            None,
            'partitions by topic: `{"orders": [0, 1]}`',
        ),
        Setting(
            "tag",
            Text(),
            None,
            "a tag filter, such as `eu.#`; messages that do not match are never sent to Spark",
        ),
        Setting(
            "startingOffsets",
            Text(),
            None,
            '`earliest` (the default of a batch), `latest` (the default of a stream), or `{"orders": {"0": '
            '23, "1": -2}}`, with -2 for the earliest and -1 for the latest',
        ),
        Setting(
            "startingTimestamp",
            Text(),
            None,
            "a time such as `2026-03-01T12:00` (UTC unless it names a zone), milliseconds since the epoch, "
            "or `-10 minutes`",
        ),
        Setting(
            "startingOffsetsByTimestamp",
            Text(),
            None,
            'a time for each partition: `{"orders": {"0": 1700000000000}}`',
        ),
        Setting(
            "endingOffsets",
            Text(),
            None,
            "of a batch: `latest` (the default), or numbers by partition; the end is exclusive",
        ),
        Setting("endingTimestamp", Text(), None, "of a batch: a time, exclusive"),
        Setting("endingOffsetsByTimestamp", Text(), None, "of a batch: a time for each partition"),
        Setting(
            "failOnDataLoss",
            Flag(),
            True,
            "`true` (the default): a stream fails if messages that it has not read were retired; `false`: it "
            "continues after them",
        ),
        Setting("maxOffsetsPerTrigger", Count(1), None, "the largest number of messages in a micro-batch"),
        Setting("maxBytesPerTrigger", Count(1), None, "the largest number of bytes in a micro-batch"),
        Setting(
            "minPartitions",
            Count(1, SPARK_TASKS_MAX),
            None,
            "at least this many tasks, if there are that many messages",
        ),
        Setting(
            "group",
            Parsed("the name of a group", _group),
            None,
            "a group (consumer group) of the topic whose position follows the stream, so that `warren group "
            "lag` shows how far behind it is",
        ),
        Setting("includeHeaders", Flag(), False, "`true`: also the column `headers`"),
        Setting(
            "valueFormat",
            OneOf(VALUE_FORMATS, ignores_case=True),
            VALUE_FORMATS[0],
            "`binary` (the default), `text`, `json` or `csv`; the last two need a schema",
        ),
        Setting(
            "messageColumns",
            ListOf(Text(), "names of columns"),
            None,
            "with `valueFormat`: which columns of the schema belong to the message, if a field of the value "
            "has the same name",
        ),
        Setting(
            "mode",
            OneOf(MODES, ignores_case=True),
            MODES[0],
            "for values that cannot be parsed: `PERMISSIVE` (the default: nulls), `DROPMALFORMED` or `FAILFAST`",
        ),
        Setting(
            "columnNameOfCorruptRecord",
            Text(),
            "_corrupt_record",
            "the column that gets a value that cannot be parsed, if the schema has that column; "
            "`_corrupt_record` by default",
        ),
        Setting("sep", Text(), ",", "the separator of the fields of `csv`; a comma by default"),
        Setting(
            "archive",
            Text(),
            None,
            "a directory of `warren archive`: archive and log are read as one table, without a gap or an overlap",
        ),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a query that reads. The store has not been opened yet."""

    access: StoreAccess
    choice: TopicChoice
    tag: str | None
    start: Bound
    end: Bound
    fail_on_data_loss: bool
    offsets_per_trigger_max: int | None
    bytes_per_trigger_max: int | None
    partitions_min: int | None
    group: str | None
    include_headers: bool
    value_format: ValueFormatName
    message_columns: tuple[str, ...] | None
    mode: Mode
    corrupt_column: str
    separator: str
    archive: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool, clock: Clock = SYSTEM_CLOCK) -> ReadOptions:
        """Parses the options. Raises BadOption, MalformedFilter or another error for the first that cannot be used."""
        raw = RawOptions.of(READ_OPTIONS, options, clock.now_ns() // 1000)
        raw.check_names()
        return cls(
            access=access_of(raw),
            choice=_choice(raw),
            tag=_tag(raw),
            start=_start(raw, is_stream=is_stream),
            end=_end(raw, is_stream=is_stream),
            fail_on_data_loss=raw.value("failOnDataLoss"),
            offsets_per_trigger_max=raw.value("maxOffsetsPerTrigger"),
            bytes_per_trigger_max=raw.value("maxBytesPerTrigger"),
            partitions_min=raw.value("minPartitions"),
            group=raw.value("group"),
            include_headers=raw.value("includeHeaders"),
            value_format=raw.value("valueFormat"),
            message_columns=raw.value("messageColumns"),
            mode=raw.value("mode"),
            corrupt_column=raw.value("columnNameOfCorruptRecord"),
            separator=raw.exact("sep") or READ_OPTIONS["sep"].default,
            archive=raw.text("archive"),
        )


def _choice(raw: RawOptions) -> TopicChoice:
    ways = ("topics", "subscribe", "topicsPattern", "subscribePattern", "assign")
    used = [way for way in ways if raw.text(way) is not None]
    if len(used) != 1:
        what = f"{' and '.join(used)} are both set" if used else "no topic is named"
        raise BadOption("topics", f"{what}; set one of topics, topicsPattern and assign")
    way, value = used[0], raw.value(used[0])
    if way == "assign":
        return TopicChoice(assigned=value)
    return (
        TopicChoice(names=tuple(dict.fromkeys(value))) if way in ("topics", "subscribe") else TopicChoice(pattern=value)
    )


def _tag(raw: RawOptions) -> str | None:
    text = raw.text("tag")
    return None if text is None else TagFilter.parse(text).text


def _start(raw: RawOptions, *, is_stream: bool) -> Bound:
    bound = _bound(raw, "starting")
    if bound is None:
        return Bound(option="startingOffsets", everywhere=LATEST if is_stream else EARLIEST)
    values = [bound.everywhere, *(number for each in bound.each.values() for number in each.values())]
    if LATEST in values and not bound.is_time and not is_stream:
        raise BadOption(bound.option, "a batch read cannot start at the latest: it would read nothing")
    return bound


def _end(raw: RawOptions, *, is_stream: bool) -> Bound:
    bound = _bound(raw, "ending")
    if bound is None:
        return Bound(option="endingOffsets", everywhere=LATEST)
    if is_stream:
        raise BadOption(bound.option, "a stream has no end; use it with spark.read")
    values = [bound.everywhere, *(number for each in bound.each.values() for number in each.values())]
    if EARLIEST in values and not bound.is_time:
        raise BadOption(bound.option, "a read cannot end at the earliest: it would read nothing")
    return bound


def _bound(raw: RawOptions, side: str) -> Bound | None:
    """Parses one side. As in Kafka, a time takes precedence over times by partition, and these over offsets."""
    by_time, by_times, by_offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if (text := raw.text(by_time)) is not None:
        return time_bound(by_time, text, raw.now_us)
    if (text := raw.text(by_times)) is not None:
        return times_bound(by_times, text, raw.now_us)
    text = raw.text(by_offsets)
    return None if text is None else offsets_bound(by_offsets, text)
