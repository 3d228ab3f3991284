"""Values as a person writes them on the command line: `yes`, `1h30m`, `2026-03-01T12:00`, `64MiB`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from warren.clock import microseconds
from warren.errors import BadInput
from warren.settings import (
    DURATION_EXAMPLES,
    DURATION_PART,
    Flag,
    OrNone,
    Seconds,
    Setting,
    duration_us,
)

YES_OR_NO: Final = Flag("yes", "no")
WHAT_TIME: Final = "a time such as 2026-03-01T12:00 (UTC, unless it names a zone)"


def duration_s(text: str) -> float:
    """Returns a duration in seconds."""
    return duration_us(text) / 1_000_000


def time_us(text: str) -> int:
    """Returns an ISO time in µs since the epoch. A time without a zone is UTC, as in the output of all commands."""
    try:
        when = datetime.fromisoformat(text.strip())
        time = microseconds(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text!r}: expected {WHAT_TIME}") from error
    if time < 0:
        raise BadInput(f"{text!r}: expected a time after 1970")
    return time


def moment_us(text: str, now_us: int) -> int:
    """Returns a time in µs since the epoch. The text is an ISO time, or a duration, which counts back from now."""
    if DURATION_PART.match(text):
        return max(0, now_us - duration_us(text))
    try:
        return time_us(text)
    except BadInput as error:
        raise BadInput(f"{text!r}: expected {WHAT_TIME}, or {DURATION_EXAMPLES} ago") from error


def parse_setting(setting: Setting, text: str) -> Any:
    """Returns the value of a setting as a person writes it: `yes` or `no`, and durations with a unit."""
    kind = setting.kind
    try:
        if isinstance(kind, Flag):
            return YES_OR_NO.parse(text)
        if isinstance(kind, OrNone) and isinstance(kind.kind, Seconds) and text != kind.word:
            return kind.check(duration_s(text))
        return kind.check(duration_s(text)) if isinstance(kind, Seconds) else kind.parse(text)
    except BadInput as error:
        raise BadInput(f"{setting.name}: {error}") if type(error) is BadInput else error from None
