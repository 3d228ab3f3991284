"""Durations, times, sizes and yes or no as a person writes them: `30s`, `1h30m`, `2026-03-01T12:00`, `64MiB`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from warren.clock import microseconds
from warren.errors import BadInput

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
DURATION_PART: Final = re.compile(rf"({NUMBER})(ms|s|m|h|d|w)")
SIZE: Final = re.compile(rf"({NUMBER})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)

WHAT_DURATION: Final = "a duration such as 500ms, 30s, 5m, 2h or 1d"
WHAT_TIME: Final = "a time such as 2026-03-01T12:00 (UTC, unless it names a zone)"
WHAT_SIZE: Final = "a size such as 1000, 64KiB, 8MiB or 2GiB"


def duration_us(text: str) -> int:
    """`text` in µs: numbers with a unit of ms, s, m, h, d or w, added up. BadInput for anything else."""
    parts = DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadInput(f"{text!r}: expected {WHAT_DURATION}")
    return sum(round(float(number) * DURATION_UNITS_US[unit]) for number, unit in parts)


def duration_s(text: str) -> float:
    """`text` in seconds."""
    return duration_us(text) / 1_000_000


def time_us(text: str) -> int:
    """An ISO time in µs since the epoch. Without a zone it is UTC: so are the times that every command shows."""
    try:
        when = datetime.fromisoformat(text.strip())
        found = microseconds(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text!r}: expected {WHAT_TIME}") from error
    if found < 0:
        raise BadInput(f"{text!r}: expected a time after 1970")
    return found


def moment_us(text: str, now_us: int) -> int:
    """A time in µs since the epoch: an ISO time, or a duration, which means so long ago."""
    if DURATION_PART.match(text):
        return max(0, now_us - duration_us(text))
    try:
        return time_us(text)
    except BadInput as error:
        raise BadInput(f"{text!r}: expected {WHAT_TIME}, or {WHAT_DURATION} ago") from error


def size_bytes(text: str) -> int:
    """`text` in bytes. Units count by 1024, whether they are written k, KB or KiB."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r}: expected {WHAT_SIZE}")
    return round(float(found[1]) * (1 << SIZE_UNITS[found[2].lower()]))


def yes_or_no(text: str) -> bool:
    """True for `yes` and False for `no`."""
    if text not in ("yes", "no"):
        raise BadInput(f"{text!r}: expected yes or no")
    return text == "yes"
