"""The kinds of values that only the keys of a pipeline file have. The other kinds are those of `warren.settings`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Final

from warren.limits import GROUP_NAME_SIZE_MAX
from warren.queue.state.settings import checked_name
from warren.settings import COUNT_MAX, Either, ListOf, OneOf, Parsed, Text, matching, refused
from warren.storage.format.tags import TagFilter

INTERVAL_PATTERN: Final = r"\d+ (?:millisecond|second|minute|hour|day|week)s?(?: \d+ (?:second|minute|hour|day)s?)*"
COLUMN_PATTERN: Final = "[A-Za-z_][A-Za-z0-9_.]*"
ENTRY_PATTERN: Final = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


def _topic(text: str) -> str:
    return checked_name("topic", text)


def _group(text: str) -> str:
    return checked_name("group", text, GROUP_NAME_SIZE_MAX) if text else ""


def _name(text: str) -> str:
    return checked_name("pipeline", text)


def _tag(text: str) -> str:
    return TagFilter.parse(text).text


def _view(text: str) -> str:
    if not text.isidentifier() or text == "input":
        raise refused("a name for a view other than input, of letters, digits and '_'", text)
    return text


def _watermark(text: str) -> tuple[str, str]:
    column, _, delay = text.strip().partition(" ")
    if not re.fullmatch(COLUMN_PATTERN, column) or not re.fullmatch(INTERVAL_PATTERN, delay.strip()):
        raise refused('a column and a delay such as "timestamp 30 seconds"', text)
    return column, delay.strip()


def _entry(text: str) -> tuple[str, str]:
    if not re.fullmatch(ENTRY_PATTERN, text):
        raise refused('a function such as "module:function"', text)
    module, _, function = text.partition(":")
    return module, function


@dataclass(frozen=True, slots=True)
class StartKind:
    """`earliest`, `latest`, a time, or numbers by topic and partition, which become JSON."""

    expected: str = "earliest, latest, a time, or numbers by topic and partition"

    def check(self, value: object) -> str:
        if isinstance(value, Mapping):
            return json.dumps({checked_name("topic", name): _numbers(each) for name, each in value.items()})
        if isinstance(value, date | time):
            return value.isoformat()
        if not isinstance(value, str):
            raise refused(self.expected, value)
        return self.parse(value)

    def parse(self, text: str) -> str:
        return TEXT.parse(text)


def _numbers(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(re.fullmatch("[0-9]{1,9}", str(name)) for name in value):
        raise refused('a number for each partition, such as { "0" = 41 }', value)
    numbers = {str(name): number for name, number in value.items()}
    if not all(isinstance(number, int) and -2 <= number <= COUNT_MAX for number in numbers.values()):
        raise refused("numbers of at least 0, -1 for latest or -2 for earliest", value)
    return numbers


TEXT: Final = Text(is_required=True)
NAME: Final = Parsed("the name of a pipeline", _name)
TOPIC: Final = Parsed("the name of a topic", _topic)
TOPICS: Final = ListOf(TOPIC, 'topics, such as ["orders"]', least=1, accepts_one=True)
GROUP: Final = Parsed("the name of a group", _group)
TAG: Final = Parsed("a tag filter", _tag)
COLUMN: Final = matching(COLUMN_PATTERN, "the name of a column")
COLUMNS: Final = ListOf(COLUMN, 'columns, such as ["id"]', least=1, accepts_one=True)
VIEW: Final = Parsed("a name for a view", _view)
INTERVAL: Final = matching(INTERVAL_PATTERN, 'a time such as "10 seconds" or "1 hour 30 minutes"')
TRIGGER: Final = Either(
    OneOf(("available-now", "continuous")),
    INTERVAL,
    '"available-now", "continuous" or a time such as "10 seconds"',
)
WATERMARK: Final = Parsed("a column and a delay", _watermark)
ENTRY: Final = Parsed("a function", _entry)
START: Final = StartKind()
