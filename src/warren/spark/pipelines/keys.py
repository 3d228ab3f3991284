"""What a key of a pipeline file may be set to: each kind takes a value of TOML, or says what it expected."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from warren.errors import BadInput
from warren.queue.names import checked_name
from warren.storage.tags import TagFilter

Kind = Callable[[Any], Any]
INTERVAL: Final = re.compile(r"\d+ (?:millisecond|second|minute|hour|day|week)s?(?: \d+ (?:second|minute|hour|day)s?)*")
COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
ENTRY: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def setting(kind: Kind, meaning: str, default: Any = None) -> Any:
    """A field of a section: a key of the file, with what it takes, what it means, and what it is when not given."""
    return dataclasses.field(default=default, metadata={"kind": kind, "meaning": meaning})


def expected(what: str, value: object) -> BadInput:
    """The complaint about a value of another kind."""
    return BadInput(f"expected {what}, not {value!r}")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise expected("a text", value)
    return value


def maybe_empty(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("a text", value)
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise expected("a whole number above 0", value)
    return value


def pattern(value: Any) -> str:
    try:
        return re.compile(text(value)).pattern
    except re.error as error:
        raise BadInput(f"{value!r} is not a regular expression: {error}") from error


def tag_filter(value: Any) -> str:
    return TagFilter.parse(text(value)).text


def topic(value: Any) -> str:
    return checked_name("topic", value)


def group(value: Any) -> str:
    return checked_name("group", value) if value != "" else ""


def name(value: Any) -> str:
    return checked_name("pipeline", value)


def topics(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise expected('topics, such as ["orders"]', value)
    return tuple(map(topic, names))


def column(value: Any) -> str:
    if not isinstance(value, str) or not COLUMN.fullmatch(value):
        raise expected("the name of a column", value)
    return value


def columns(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise expected('columns, such as ["id"]', value)
    return tuple(map(column, names))


def view(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier() or value == "input":
        raise expected("a name for a view other than input, of letters, digits and '_'", value)
    return value


def interval(value: Any) -> str:
    if not isinstance(value, str) or not INTERVAL.fullmatch(value.strip()):
        raise expected('a time such as "10 seconds" or "1 hour 30 minutes"', value)
    return value.strip()


def trigger(value: Any) -> str:
    if value in ("available-now", "continuous"):
        return str(value)
    try:
        return interval(value)
    except BadInput:
        raise expected('"available-now", "continuous" or a time such as "10 seconds"', value) from None


def watermark(value: Any) -> tuple[str, str]:
    """A column and a delay: `timestamp 30 seconds`."""
    if isinstance(value, str):
        time, _, delay = value.strip().partition(" ")
        if COLUMN.fullmatch(time) and INTERVAL.fullmatch(delay.strip()):
            return time, delay.strip()
    raise expected('a column and a delay such as "timestamp 30 seconds"', value)


def entry(value: Any) -> tuple[str, str]:
    """A module and a function in it: `steps:enrich`."""
    if not isinstance(value, str) or not ENTRY.fullmatch(value):
        raise expected('a function such as "module:function"', value)
    module, _, function = value.partition(":")
    return module, function


def starting(value: Any) -> str:
    """`earliest`, `latest`, a time, or numbers by topic and partition, which become JSON."""
    if isinstance(value, Mapping):
        numbers = {topic(name): _numbers(by_partition) for name, by_partition in value.items()}
        return json.dumps(numbers)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return text(value)


def _numbers(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(str(name).isdigit() for name in value):
        raise expected('a number for each partition, such as { "0" = 41 }', value)
    if not all(isinstance(number, int) and number >= -2 for number in value.values()):
        raise expected("numbers from 0 on, -1 for latest or -2 for earliest", dict(value))
    return dict(value)


def one_of(*choices: str) -> Kind:
    """One of these words and no other."""

    def choose(value: Any) -> str:
        if value not in choices:
            near = f"; did you mean {nearest(str(value), choices)!r}?" if nearest(str(value), choices) else ""
            raise BadInput(f"expected {' or '.join(map(repr, choices))}, not {value!r}{near}")
        return str(value)

    return choose


def nearest(given: str, known: Iterable[str]) -> str:
    """The known word that is most like the given one; empty where none is."""
    return next(iter(difflib.get_close_matches(given, list(known))), "")
