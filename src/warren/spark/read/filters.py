"""Filter push-down: which partitions, numbers, times and tags a batch read can skip because of Spark's filters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from warren.clock import microseconds
from warren.errors import MalformedFilter
from warren.spark.columns.columns import MESSAGE_COLUMNS
from warren.storage.format.limits import FILTER_SIZE_MAX
from warren.storage.format.tags import ALTERNATIVE_SEPARATOR, LEVEL_SEPARATOR, ONE_LEVEL, THE_REST, TagFilter

TESTS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        EqualTo: operator.eq,
        GreaterThan: operator.gt,
        GreaterThanOrEqual: operator.ge,
        LessThan: operator.lt,
        LessThanOrEqual: operator.le,
        In: lambda value, values: value in values,
        StringStartsWith: str.startswith,
    }
)
VALUE_TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {"topic": str, "partition": int, "offset": int, "timestamp": datetime, "tag": str}
)
"""The columns by which messages can be skipped, and the type that each is compared with."""


@dataclass(slots=True)
class Narrowing:
    """The part that remains to be read: every message that passes the filters, and perhaps others.

    `push` returns the filters that Spark must still apply. Ranges of numbers and of times (in µs) exclude their end.
    `tag` is the tag filter of the scans.
    """

    tag: str | None = None
    start: int = 0
    end: int | None = None
    since_us: int = 0
    until_us: int | None = None
    is_empty: bool = False
    _places: list[tuple[str, Filter]] = field(default_factory=list)
    _has_tags: bool = False

    def has(self, topic: str, partition: int) -> bool:
        """Returns whether any part of this partition remains to be read."""
        values: dict[str, Any] = {"topic": topic, "partition": partition}
        return not self.is_empty and all(_passes(values[name], test) for name, test in self._places)

    def push(self, filters: Iterable[Filter], from_message: Collection[str]) -> list[Filter]:
        """Narrows the read by the filters, and returns those that Spark must still apply.

        `from_message` are the names, in lower case, of the columns that come from the message.
        """
        left = [each for each in filters if not self._take(each, from_message)]
        # A message that matches a tag filter has a tag, so `tag IS NOT NULL` holds for it.
        return [each for each in left if not (self._has_tags and each == IsNotNull(("tag",)))]

    def _take(self, each: Filter, from_message: Collection[str]) -> bool:
        """Narrows the read by one filter. Returns whether it is exact, that is whether every
        remaining message passes.
        """
        name = _column(each)
        if name is None or name not in from_message:
            return False
        if isinstance(each, IsNotNull):
            return not MESSAGE_COLUMNS[name].is_nullable
        if name not in VALUE_TYPES or type(each) not in TESTS or not _is_comparable(each, VALUE_TYPES[name]):
            return False
        if name in ("topic", "partition"):
            self._places.append((name, each))
            return True
        if name == "offset":
            return self._take_numbers(each)
        return self._take_times(each) if name == "timestamp" else self._take_tags(each)

    def _take_numbers(self, each: Filter) -> bool:
        self.start, self.end = _narrowed(self.start, self.end, *_range(each, int))
        return not isinstance(each, In)

    def _take_times(self, each: Filter) -> bool:
        self.since_us, self.until_us = _narrowed(self.since_us, self.until_us, *_range(each, microseconds))
        return not isinstance(each, In)

    def _take_tags(self, each: Filter) -> bool:
        value: Any = getattr(each, "value", None)
        if isinstance(each, EqualTo | In):
            return self._take_alternatives([value] if isinstance(each, EqualTo) else value)
        if isinstance(each, StringStartsWith) and self.tag is None and value.endswith(LEVEL_SEPARATOR):
            parent = value.removesuffix(LEVEL_SEPARATOR)
            # `a.#` also matches `a`, so Spark must apply the filter again.
            tag = f"{parent}{LEVEL_SEPARATOR}{THE_REST}"
            if is_plain(parent) and len(tag.encode()) <= FILTER_SIZE_MAX:
                self.tag = tag
        return False

    def _take_alternatives(self, tags: Sequence[str]) -> bool:
        if not all(map(is_plain, tags)):
            return False
        tag_filter = None if self.tag is None else TagFilter.parse(self.tag)
        left = sorted({tag for tag in tags if tag_filter is None or tag_filter.matches(tag)})
        alternatives = ALTERNATIVE_SEPARATOR.join(left)
        if len(alternatives.encode()) > FILTER_SIZE_MAX:
            return False
        self.tag, self.is_empty, self._has_tags = alternatives or self.tag, self.is_empty or not left, True
        return True


def is_plain(tag: str) -> bool:
    """Returns whether a tag, used as a filter, matches only itself."""
    if any(mark in tag for mark in (ONE_LEVEL, THE_REST, ALTERNATIVE_SEPARATOR)):
        return False
    try:
        TagFilter.parse(tag)
    except MalformedFilter:
        return False
    return True


def _column(each: Filter) -> str | None:
    """Returns the column that the filter tests; None for a field of a column, or for several columns."""
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0].lower() if len(path) == 1 else None


def _is_comparable(each: Filter, kind: type) -> bool:
    value: Any = getattr(each, "value", None)
    values = value if isinstance(each, In) else [value]
    if not values or any(not isinstance(one, kind) or isinstance(one, bool) for one in values):
        return False
    return kind is not datetime or all(one.tzinfo is not None for one in values)


def _passes(value: Any, test: Filter) -> bool:
    return TESTS[type(test)](value, getattr(test, "value", None))


def _narrowed(start: int, end: int | None, low: int | None, high: int | None) -> tuple[int, int | None]:
    ends = [each for each in (end, high) if each is not None]
    return max(start, low or 0), min(ends, default=None)


def _range(each: Filter, whole: Callable[[Any], int]) -> tuple[int | None, int | None]:
    """Returns the smallest value that passes, and the smallest above all that pass; None for no limit."""
    value: Any = getattr(each, "value", None)
    if isinstance(each, In):
        return min(map(whole, value)), max(map(whole, value)) + 1
    at = whole(value)
    if isinstance(each, EqualTo):
        return at, at + 1
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return (at + 1 if isinstance(each, GreaterThan) else at), None
    return None, (at if isinstance(each, LessThan) else at + 1)
