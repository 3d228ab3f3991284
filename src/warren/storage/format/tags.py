"""Tag filters: expressions such as `eu.*;us.#` for the tags that a reader selects."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from warren.errors import MalformedFilter
from warren.storage.format.limits import FILTER_SIZE_MAX

ONE_LEVEL: Final = "*"
THE_REST: Final = "#"
LEVEL_SEPARATOR: Final = "."
ALTERNATIVE_SEPARATOR: Final = ";"

FILTERS_KEPT_MAX: Final = 256
TAGS_KEPT_MAX: Final = 1024


class TagFilter:
    """The filter that `text` describes. Immutable: any number of threads may share one.

    `.` separates levels. `*` matches any one level. `#` matches the rest, which may be empty, and must be last. `;`
    separates alternatives. A filter never matches the empty tag, which is that of an untagged message.
    """

    __slots__ = ("_matches", "text")

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.text: Final = text
        # A log has few tags and many messages: for a tag that was matched before, the result costs one lookup.
        self._matches: Final = lru_cache(TAGS_KEPT_MAX)(lambda tag: pattern.fullmatch(tag) is not None)

    @classmethod
    def parse(cls, text: str) -> TagFilter:
        """Returns the filter of `text`. Raises MalformedFilter, with the reason, if it is not valid."""
        return _compile(text)

    def matches(self, tag: str) -> bool:
        """Returns whether a message with this tag passes."""
        return self._matches(tag)

    def __repr__(self) -> str:
        return f"TagFilter({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TagFilter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=FILTERS_KEPT_MAX)
def _compile(text: str) -> TagFilter:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise MalformedFilter(text, "it is not valid Unicode") from None
    if size > FILTER_SIZE_MAX:
        raise MalformedFilter(text, f"{size} bytes is over the limit of {FILTER_SIZE_MAX} bytes")
    alternatives = "|".join(_expression(text, alternative) for alternative in text.split(ALTERNATIVE_SEPARATOR))
    return TagFilter(text, re.compile(rf"(?!\Z)(?:{alternatives})", re.DOTALL))


def _expression(text: str, alternative: str) -> str:
    """Returns the regular expression of one alternative of the filter `text`."""
    if not alternative:
        raise MalformedFilter(text, "an alternative is empty" if text else "it is empty")
    *parents, last = alternative.split(LEVEL_SEPARATOR)
    if THE_REST in parents:
        raise MalformedFilter(text, f"{THE_REST!r} may only be the last level")
    expression = r"\.".join(_level(text, level) for level in parents)
    if last != THE_REST:
        return rf"{expression}\.{_level(text, last)}" if parents else _level(text, last)
    return rf"{expression}(?:\..*)?" if parents else ".*"


def _level(text: str, level: str) -> str:
    """Returns the regular expression of one level other than `#`."""
    if not level:
        raise MalformedFilter(text, "a level is empty")
    if level == ONE_LEVEL:
        return r"[^.]*"
    if ONE_LEVEL in level or THE_REST in level:
        raise MalformedFilter(
            text, f"{ONE_LEVEL!r} and {THE_REST!r} stand for whole levels, not for parts of {level!r}"
        )
    return re.escape(level)
