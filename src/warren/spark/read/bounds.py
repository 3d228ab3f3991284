"""Where a read starts or ends, as the options say: a number, a time, or one of these for each partition."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from warren.clock import microseconds
from warren.errors import BadOption

EARLIEST: Final = -2
LATEST: Final = -1
"""The numbers that stand for these words in JSON, as in Kafka."""

UNITS_US: Final = MappingProxyType(
    {
        "millisecond": 1_000,
        "second": 1_000_000,
        "minute": 60_000_000,
        "hour": 3_600_000_000,
        "day": 86_400_000_000,
        "week": 604_800_000_000,
    }
)
AGO: Final = re.compile(r"-\s*(\d{1,12}(?:\.\d{1,6})?)\s*(" + "|".join(UNITS_US) + r")s?", re.IGNORECASE)
MILLISECONDS: Final = re.compile(r"\d{1,15}")
WHAT_TIME: Final = "a time such as 2026-03-01T12:00 (UTC, unless it names a zone), ms since the epoch, or '-10 minutes'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A number for each partition, or a time in µs if `is_time`.

    `everywhere` is the value for partitions that `each` does not name; if it is None, `each` must name all of them.
    `option` is the name of the option, for errors.
    """

    option: str
    everywhere: int | None = None
    each: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    is_time: bool = False

    def of(self, topic: str, partition: int) -> int:
        """Returns the value for this partition. Raises BadOption if there is none."""
        value = self.each.get(topic, {}).get(partition, self.everywhere)
        if value is None:
            raise BadOption(
                self.option,
                f"it does not name partition {partition} of topic {topic!r}; name every partition that is read",
            )
        return value


def offsets_bound(option: str, text: str) -> Bound:
    """Parses `earliest`, `latest`, or JSON such as {"orders": {"0": 23, "1": -2}}."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Bound(option=option, everywhere=EARLIEST if word == "earliest" else LATEST)
    return Bound(option=option, each=_each(option, text, _number))


def time_bound(option: str, text: str, now_us: int) -> Bound:
    """Parses one time for all partitions."""
    return Bound(option=option, everywhere=_time_us(option, text, now_us), is_time=True)


def times_bound(option: str, text: str, now_us: int) -> Bound:
    """Parses JSON with a time for each partition, such as {"orders": {"0": 1700000000000}}."""

    def time(option: str, value: object) -> int:
        return _time_us(option, str(value), now_us)

    return Bound(option=option, each=_each(option, text, time), is_time=True)


def _each(option: str, text: str, value_of: Callable[[str, object], int]) -> dict[str, dict[int, int]]:
    """Parses JSON by topic and partition. Raises BadOption for anything else."""
    expected = '{"topic": {"0": 23, "1": -2}}'
    try:
        data = json.loads(text)
        pairs = {topic: {_partition(key): value for key, value in each.items()} for topic, each in data.items()}
    except (ValueError, AttributeError):
        words = "earliest, latest or " if value_of is _number else ""
        raise BadOption(option, f"{text!r}: expected {words}JSON such as {expected}") from None
    return {topic: {key: value_of(option, value) for key, value in each.items()} for topic, each in pairs.items()}


def _partition(key: str) -> int:
    if not key.isdecimal():
        raise ValueError(key)
    return int(key)


def _number(option: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise BadOption(option, f"{value!r}: expected a number, -2 for the earliest or -1 for the latest")
    return value


def _time_us(option: str, text: str, now_us: int) -> int:
    text = text.strip()
    if MILLISECONDS.fullmatch(text):
        return int(text) * 1000
    ago = AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_us - round(float(ago[1]) * UNITS_US[ago[2].lower()]))
    try:
        when = datetime.fromisoformat(text)
        time_us = microseconds(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise BadOption(option, f"{text!r}: expected {WHAT_TIME}") from None
    if time_us < 0:
        raise BadOption(option, f"{text!r}: expected a time after 1970")
    return time_us
