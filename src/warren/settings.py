"""The values that users may set: kinds of values, and tables of settings. All code that reads settings uses this
module.

A setting has a name, a kind, a default and one sentence that describes it. A table holds the settings of one door to
Warren: those of a topic, of a group, of the broker, the options of Spark, the keys of a pipeline. A kind accepts values
of Python, JSON and TOML with `check`, and text (of a command line, an environment variable, a Spark option, a Kafka
config) with `parse`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from warren.errors import BadInput

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)

COUNT_MAX: Final = (1 << 63) - 1
SHOWN_SIZE_MAX: Final = 80
"""How many characters of a wrong value an error shows."""
NAME_SHOWN_SIZE_MAX: Final = 50
ALIKE_MIN: Final = 0.6
"""How similar a name must be to be suggested instead."""

DURATION_UNITS_US: Final = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
SIZE_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
DURATION_PART: Final = re.compile(rf"({NUMBER})(ms|s|m|h|d|w)")
SIZE: Final = re.compile(rf"({NUMBER})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
DURATION_EXAMPLES: Final = "a duration such as 500ms, 30s, 5m, 2h or 1d"
SIZE_EXAMPLES: Final = "such as 1000, 64KiB, 8MiB or 2GiB"


# --- Errors ---


def refused(expected: str, value: object) -> BadInput:
    """Returns the error for a value that is not `expected`."""
    return BadInput(f"expected {expected}, not {_excerpt(value)}")


def unknown(noun: str, name: str, choices: Iterable[str]) -> str:
    """Returns the sentence for a name that does not exist."""
    return f"there is no {noun} {name[:NAME_SHOWN_SIZE_MAX]!r}; {hint(name, choices)}"


def hint(name: str, choices: Iterable[str]) -> str:
    """Returns the part of a sentence that suggests the most similar name in `choices`, or lists all."""
    names = list(choices)
    near = nearest(name, names)
    return f"did you mean {near!r}?" if near else f"there are {', '.join(names) or 'none'}"


def nearest(name: str, choices: Iterable[str]) -> str:
    """Returns the name in `choices` that is most similar to `name`, ignoring case, or "" if none is similar."""
    by_lower_case = {each.lower(): each for each in choices}
    matches = difflib.get_close_matches(name[:NAME_SHOWN_SIZE_MAX].lower(), by_lower_case, 1, cutoff=ALIKE_MIN)
    return by_lower_case[matches[0]] if matches else ""


def _excerpt(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write numbers of more than a few thousand digits.
        text = f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= SHOWN_SIZE_MAX else f"{text[:SHOWN_SIZE_MAX]}…"


# --- Kinds of values ---


class Kind(Protocol[T_co]):
    """The values that a setting accepts. For any other value both methods raise BadInput, and no other error."""

    @property
    def expected(self) -> str:
        """Returns what `check` accepts, as it follows "expected" in an error."""
        ...

    def check(self, value: object) -> T_co:
        """Returns a value of Python, JSON or TOML as Warren stores it."""
        ...

    def parse(self, text: str) -> T_co:
        """Returns the value that `text` stands for."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = COUNT_MAX

    @property
    def expected(self) -> str:
        if self.most == COUNT_MAX:
            return "a whole number above 0" if self.least == 1 else f"a whole number from {self.least} on"
        return f"a whole number from {self.least} to {self.most}"

    def check(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise refused(self.expected, value)
        return value

    def parse(self, text: str) -> int:
        if not WHOLE.fullmatch(text.strip()) or not self.least <= int(text) <= self.most:
            raise refused(self.expected, text)
        return int(text)


@dataclass(frozen=True, slots=True)
class Size(Count):
    """A number of bytes from `least` to `most`. A text may have a unit: k, KB and KiB all mean 1024."""

    def parse(self, text: str) -> int:
        match = SIZE.fullmatch(text.strip())
        size = -1 if match is None else round(float(match[1]) * (1 << SIZE_UNITS[match[2].lower()]))
        if match is None or not self.least <= size <= self.most:
            bounds = "" if self.most == COUNT_MAX else f" from {self.least} to {self.most} bytes,"
            raise refused(f"a size{bounds} {SIZE_EXAMPLES}", text)
        return size


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `least` to `most`; above `least`, if `is_above` is set."""

    least: float
    most: float
    is_above: bool = False

    @property
    def expected(self) -> str:
        return f"a number {self._bounds}"

    @property
    def _bounds(self) -> str:
        if self.is_above:
            return f"above {self.least:g}, at most {self.most:g}"
        return f"from {self.least:g} to {self.most:g}"

    def check(self, value: object) -> float:
        # Compared before it is converted: the comparison is False for a NaN, and some ints do not fit into a float.
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise refused(self.expected, value)
        if self.is_above and value == self.least:
            raise refused(self.expected, value)
        return float(value)

    def parse(self, text: str) -> float:
        try:
            return self.check(float(text))
        except ValueError:
            raise refused(self.expected, text) from None


@dataclass(frozen=True, slots=True)
class Seconds(Number):
    """Seconds from `least` to `most`; above `least`, if `is_above` is set. A text may have units, as in 1h30m."""

    @property
    def expected(self) -> str:
        return f"seconds {self._bounds}"

    def parse(self, text: str) -> float:
        try:
            return self.check(duration_us(text.strip()) / 1_000_000 if DURATION_PART.search(text) else float(text))
        except ValueError:
            raise refused(f"{self.expected}, such as 2.5 or 30s", text) from None


def duration_us(text: str) -> int:
    """Returns µs: the sum of numbers with a unit of ms, s, m, h, d or w. Raises BadInput for any other text."""
    parts = DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise refused(DURATION_EXAMPLES, text)
    return sum(round(float(number) * DURATION_UNITS_US[unit]) for number, unit in parts)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false. In a text these are the words `yes` and `no` of the kind."""

    yes: str = "true"
    no: str = "false"

    @property
    def expected(self) -> str:
        return f"{self.yes} or {self.no}"

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise refused(self.expected, value)
        return value

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in (self.yes, self.no):
            raise refused(self.expected, text)
        return word == self.yes


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of `words`. The case of letters does not matter if `ignores_case` is set."""

    words: Sequence[str]
    ignores_case: bool = False

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            raise refused(self.expected, value)
        return self.parse(value)

    def parse(self, text: str) -> str:
        for word in self.words:
            if word == text or (self.ignores_case and word.lower() == text.lower()):
                return word
        near = nearest(text, self.words)
        raise BadInput(f"{refused(self.expected, text)}{f'; did you mean {near!r}?' if near else ''}")


@dataclass(frozen=True, slots=True)
class Text:
    """Any text; one that is not blank, if `is_required` is set."""

    is_required: bool = False

    @property
    def expected(self) -> str:
        return "text that is not empty" if self.is_required else "text"

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            raise refused(self.expected, value)
        return self.parse(value)

    def parse(self, text: str) -> str:
        if self.is_required and not text.strip():
            raise refused(self.expected, text)
        return text


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """Text that `convert` accepts. `convert` raises BadInput for any other text.

    `pattern` and `size_max` describe the text to clients over HTTP, as far as an expression and a size can.
    """

    expected: str
    convert: Callable[[str], T]
    pattern: str = ""
    size_max: int = COUNT_MAX

    def check(self, value: object) -> T:
        if not isinstance(value, str):
            raise refused(self.expected, value)
        return self.convert(value)

    def parse(self, text: str) -> T:
        return self.convert(text)


def regular_expression() -> Parsed[str]:
    """Returns the kind of a text that is a regular expression of Python."""

    def compiled(text: str) -> str:
        try:
            return re.compile(text).pattern
        except (re.error, RecursionError, OverflowError) as error:
            raise BadInput(f"{_excerpt(text)} is not a regular expression: {error}") from None

    return Parsed("a regular expression", compiled)


def matching(pattern: str, expected: str) -> Parsed[str]:
    """Returns the kind of a text that matches `pattern` as a whole, without surrounding space."""

    def match(text: str) -> str:
        if not re.fullmatch(pattern, text.strip()):
            raise refused(expected, text)
        return text.strip()

    return Parsed(expected, match)


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list of at least `least` values of one kind. As text, the values are separated by commas.

    If `accepts_one` is set, a text that is not in a list stands for a list of one.
    """

    item: Kind[T]
    expected: str
    least: int = 0
    accepts_one: bool = False

    def check(self, value: object) -> tuple[T, ...]:
        if self.accepts_one and isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple) or len(value) < self.least:
            raise refused(self.expected, value)
        return tuple(map(self.item.check, value))

    def parse(self, text: str) -> tuple[T, ...]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if len(words) < self.least:
            raise refused(self.expected, text)
        return tuple(map(self.item.parse, words))


@dataclass(frozen=True, slots=True)
class Either(Generic[T, U]):
    """A value of one of two kinds; `first` is tried first."""

    first: Kind[T]
    second: Kind[U]
    expected: str

    def check(self, value: object) -> T | U:
        return self._converted(self.first.check, self.second.check, value)

    def parse(self, text: str) -> T | U:
        return self._converted(self.first.parse, self.second.parse, text)

    def _converted(self, first: Callable[[Any], T], second: Callable[[Any], U], value: object) -> T | U:
        with suppress(BadInput):
            return first(value)
        with suppress(BadInput):
            return second(value)
        raise refused(self.expected, value)


@dataclass(frozen=True, slots=True)
class OrNone(Generic[T]):
    """A value of `kind`, or None. In a text, `word` stands for None."""

    kind: Kind[T]
    word: str = "none"

    @property
    def expected(self) -> str:
        return f"{self.kind.expected}, or None"

    def check(self, value: object) -> T | None:
        return None if value is None else self._named(self.kind.check, value, "None")

    def parse(self, text: str) -> T | None:
        return None if text.strip() == self.word else self._named(self.kind.parse, text, self.word)

    def _named(self, convert: Callable[[Any], T], value: object, word: str) -> T:
        try:
            return convert(value)
        except BadInput as error:
            if type(error) is not BadInput:
                raise
            raise BadInput(f"{error} ({word} is allowed too)") from None


# --- Tables of settings ---


class Setting(NamedTuple):
    """One thing that a user may set. `description` is a part of a sentence, as the tables of the documents show it.

    `field` is the field of the dataclass that holds the value, if there is one.
    """

    name: str
    kind: Kind[Any]
    default: Any
    description: str
    field: str = ""


def _named_error(name: str, error: BadInput) -> BadInput:
    # An error of another class, such as BadName, names its subject itself.
    return BadInput(f"{name}: {error}") if type(error) is BadInput else error


class Table(Mapping[str, Setting]):
    """The settings of one door by name, in the order in which documents list them. Immutable.

    `refuse` makes the error of the door from the name of a setting and the error of its kind.
    """

    def __init__(
        self,
        noun: str,
        settings: Iterable[Setting],
        *,
        refuse: Callable[[str, BadInput], BadInput] = _named_error,
    ) -> None:
        self.noun, self._refuse = noun, refuse
        self._settings = {setting.name: setting for setting in settings}

    @classmethod
    def of(cls, noun: str, fields: type, **options: Any) -> Table:
        """Returns the table of those fields of a dataclass that were made by `setting`."""
        settings = (
            Setting(
                each.metadata["name"] or each.name,
                each.metadata["kind"],
                each.default,
                each.metadata["description"],
                each.name,
            )
            for each in dataclasses.fields(fields)
            if "kind" in each.metadata
        )
        return cls(noun, settings, **options)

    def without(self, *names: str) -> Table:
        """Returns the table of all settings except for these."""
        return Table(self.noun, (self[name] for name in self if name not in names), refuse=self._refuse)

    def __getitem__(self, name: str) -> Setting:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises BadInput for the first name that is not in the table, and suggests the most similar name."""
        for name in names:
            if name not in self._settings:
                raise BadInput(unknown(self.noun, name, self._settings))

    def check(self, name: str, value: object) -> Any:
        """Returns a value of Python, JSON or TOML for this setting. Raises the error of the door if it is wrong."""
        try:
            return self._settings[name].kind.check(value)
        except BadInput as error:
            raise self._refuse(name, error) from error

    def parse(self, name: str, text: str) -> Any:
        """Returns the value that `text` stands for in this setting. Raises the error of the door if it is wrong."""
        try:
            return self._settings[name].kind.parse(text)
        except BadInput as error:
            raise self._refuse(name, error) from error

    def read(self, name: str, value: object) -> Any:
        """Returns the value of this setting in a file, in which a text may stand for a value of any kind."""
        return self.parse(name, value) if isinstance(value, str) else self.check(name, value)

    def check_fields(self, settings: object) -> None:
        """Checks an object of the dataclass that the table was made of."""
        for each in self._settings.values():
            self.check(each.name, getattr(settings, each.field))


def setting(kind: Kind[T], description: str, default: T, *, name: str = "") -> T:
    """Returns a field of a dataclass that is a setting; `Table.of` makes the table of all of them.

    `name` is what users call it, if that is not the name of the field.
    """
    return dataclasses.field(default=default, metadata={"kind": kind, "description": description, "name": name})
