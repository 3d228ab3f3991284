"""Options as Spark hands them over: text by name, read as words, numbers and truths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from warren.errors import BadOption

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True)
class Given:
    """Options as they came, by their names in lower case, and the time it is."""

    options: Mapping[str, str]
    now_us: int

    def text(self, option: str) -> str | None:
        """The value without the space around it; None for an option that is not given or empty."""
        return self.options.get(option.lower(), "").strip() or None

    def truth(self, option: str, *, default: bool) -> bool:
        text = self.text(option)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise BadOption(option, f"{text!r}: expected true or false")
        return text.lower() == "true"

    def whole(self, option: str, most: int = (1 << 63) - 1) -> int | None:
        text = self.text(option)
        if text is None:
            return None
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise BadOption(option, f"{text!r}: expected a whole number from 1 to {most}")
        return int(text)

    def one_of(self, option: str, values: Sequence[Word]) -> Word:
        """One of `values`, in whatever case it is written; the first where the option is not given."""
        text = self.text(option)
        found = [value for value in values if text is None or value.lower() == text.lower()]
        if not found:
            raise BadOption(option, f"{text!r}: expected one of {', '.join(values)}")
        return found[0]
