"""The options of a query that reads: each known, checked, and given as what it means."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import GROUP_NAME_SIZE_MAX, SPARK_TASKS_MAX
from warren.errors import BadName, BadOption
from warren.queue.names import checked_name
from warren.spark.bounds import EARLIEST, LATEST, Bound, offsets_bound, time_bound, times_bound
from warren.spark.given import Given
from warren.spark.reach import Reach
from warren.spark.store_options import STORE_OPTIONS, reach_of
from warren.spark.topic_choice import TopicChoice
from warren.storage.tags import TagFilter

READ_OPTIONS: Final = (
    *STORE_OPTIONS,
    "topics",
    "topicsPattern",
    "subscribe",
    "subscribePattern",
    "assign",
    "tag",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "group",
    "includeHeaders",
    "valueFormat",
    "messageColumns",
    "mode",
    "columnNameOfCorruptRecord",
    "sep",
    "archive",
)
WITHOUT_MEANING: Final = frozenset(
    {
        "groupidprefix",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafkaconsumer.polltimeoutms",
        "partition.metadata.cache.ttl.ms",
        "startingoffsetsbytimestampstrategy",
        "includetimestamptype",
    }
)
"""What a query written for Kafka may carry, beside all that begins with `kafka.`: there is no broker to tell it to."""
REFUSED: Final = MappingProxyType(
    {
        "minoffsetspertrigger": "a micro-batch takes what is there; choose the trigger's interval instead",
        "maxtriggerdelay": "a micro-batch takes what is there; choose the trigger's interval instead",
    }
)
SPARKS_OWN: Final = frozenset(
    {"location", "owner", "provider", "comment", "collation", "external", "is_managed_location", "serialization.format"}
)
SPARKS_OWN_PREFIXES: Final = ("spark.", "option.", "kafka.")

ValueFormat = Literal["binary", "json", "csv", "text"]
Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
VALUE_FORMATS: Final[tuple[ValueFormat, ...]] = ("binary", "json", "csv", "text")
MODES: Final[tuple[Mode, ...]] = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


def check_known(options: Mapping[str, str], known: Sequence[str]) -> None:
    """BadOption, with the nearest known one, for an option that is neither known nor one of Spark's own."""
    names = {name.lower(): name for name in known}
    for option in options:
        key = option.lower()
        if key in REFUSED and key not in names:
            raise BadOption(option, REFUSED[key])
        if key in names or key in WITHOUT_MEANING | SPARKS_OWN or key.startswith(SPARKS_OWN_PREFIXES):
            continue
        near = difflib.get_close_matches(key, names, 1)
        hint = f"did you mean {names[near[0]]!r}?" if near else f"the options are {', '.join(sorted(known))}"
        raise BadOption(option, f"it is not known; {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a query that reads asks for. Nothing of it has been looked for yet."""

    reach: Reach
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
    value_format: ValueFormat
    message_columns: tuple[str, ...] | None
    mode: Mode
    corrupt_column: str
    separator: str
    archive: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool, clock: Clock = SYSTEM_CLOCK) -> ReadOptions:
        """What the options mean; BadOption, or what else the value breaks, for the first that cannot be taken."""
        check_known(options, READ_OPTIONS)
        given = Given({key.lower(): value for key, value in options.items()}, clock.now_ns() // 1000)
        names = given.text("messageColumns")
        return cls(
            reach=reach_of(given),
            choice=_choice(given),
            tag=_tag(given),
            start=_start(given, is_stream=is_stream),
            end=_end(given, is_stream=is_stream),
            fail_on_data_loss=given.truth("failOnDataLoss", default=True),
            offsets_per_trigger_max=given.whole("maxOffsetsPerTrigger"),
            bytes_per_trigger_max=given.whole("maxBytesPerTrigger"),
            partitions_min=given.whole("minPartitions", most=SPARK_TASKS_MAX),
            group=_group(given),
            include_headers=given.truth("includeHeaders", default=False),
            value_format=given.one_of("valueFormat", VALUE_FORMATS),
            message_columns=None if names is None else _listed(names),
            mode=given.one_of("mode", MODES),
            corrupt_column=given.text("columnNameOfCorruptRecord") or "_corrupt_record",
            separator=given.options.get("sep") or ",",
            archive=given.text("archive"),
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for name in map(str.strip, text.split(",")) if name)


def _choice(given: Given) -> TopicChoice:
    ways = ("topics", "subscribe", "topicsPattern", "subscribePattern", "assign")
    used = [way for way in ways if given.text(way) is not None]
    if len(used) != 1:
        what = f"{' and '.join(used)} are given at once" if used else "no topic is named"
        raise BadOption("topics", f"{what}; give one of topics, topicsPattern and assign")
    way, text = used[0], given.text(used[0]) or ""
    if way == "assign":
        return TopicChoice(assigned=_assigned(text))
    if way in ("topics", "subscribe"):
        names = tuple(dict.fromkeys(_listed(text)))
        return TopicChoice(names=tuple(_checked(way, "topic", name) for name in names))
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(way, f"{text!r} is no regular expression: {error}") from None
    return TopicChoice(pattern=text)


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        data = json.loads(text)
        assigned = {str(topic): tuple(sorted(set(partitions))) for topic, partitions in data.items()}
    except (ValueError, AttributeError, TypeError):
        assigned = {}
    numbers = [number for partitions in assigned.values() for number in partitions]
    if not assigned or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise BadOption("assign", f'{text!r}: expected JSON such as {{"orders": [0, 1]}}')
    return {_checked("assign", "topic", topic): partitions for topic, partitions in assigned.items()}


def _checked(option: str, what: str, name: str) -> str:
    try:
        return checked_name(what, name, GROUP_NAME_SIZE_MAX) if what == "group" else checked_name(what, name)
    except BadName as error:
        raise BadOption(option, str(error)) from None


def _tag(given: Given) -> str | None:
    text = given.text("tag")
    return None if text is None else TagFilter.parse(text).text


def _group(given: Given) -> str | None:
    text = given.text("group")
    return None if text is None else _checked("group", "group", text)


def _start(given: Given, *, is_stream: bool) -> Bound:
    bound = _bound(given, "starting")
    if bound is None:
        return Bound(option="startingOffsets", everywhere=LATEST if is_stream else EARLIEST)
    told = [bound.everywhere, *(number for each in bound.each.values() for number in each.values())]
    if LATEST in told and not bound.is_time and not is_stream:
        raise BadOption(bound.option, "a batch read cannot start at the latest: there would be nothing to read")
    return bound


def _end(given: Given, *, is_stream: bool) -> Bound:
    bound = _bound(given, "ending")
    if bound is None:
        return Bound(option="endingOffsets", everywhere=LATEST)
    if is_stream:
        raise BadOption(bound.option, "a stream has no end; use it with spark.read")
    told = [bound.everywhere, *(number for each in bound.each.values() for number in each.values())]
    if EARLIEST in told and not bound.is_time:
        raise BadOption(bound.option, "a read cannot end at the earliest: there would be nothing to read")
    return bound


def _bound(given: Given, side: str) -> Bound | None:
    """What is told of one side. As in Kafka, a time goes before a time for each partition, and that before offsets."""
    by_time, by_times, by_offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if (text := given.text(by_time)) is not None:
        return time_bound(by_time, text, given.now_us)
    if (text := given.text(by_times)) is not None:
        return times_bound(by_times, text, given.now_us)
    text = given.text(by_offsets)
    return None if text is None else offsets_bound(by_offsets, text)
