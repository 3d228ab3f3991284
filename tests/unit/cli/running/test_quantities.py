"""Durations, times and sizes as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from warren.cli.running.quantities import YES_OR_NO, duration_s, moment_us, parse_setting, time_us
from warren.errors import BadInput
from warren.queue.state.settings import TOPIC_SETTINGS
from warren.settings import Size, duration_us

NOON_US = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
MINUTE_US = 60_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7_200),
        ("1d", 86_400),
        ("1w", 604_800),
        ("0s", 0),
        ("1.5h", 5_400),
        ("1h30m", 5_400),
        ("1d12h0.5s", 129_600.5),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds
    assert duration_us(text) == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-5s", "5 s", "5x", "5S", "1e3s", "5s!", "٣s", "5s5", ".5s", "9" * 16 + "s"]
)
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected a duration"):
        duration_us(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00",
        "2026-03-01 12:00:00",
        "2026-03-01T12:00:00.000000Z",
        "2026-03-01T14:00+02:00",
        " 2026-03-01T12:00 ",
        "20260301T120000",
    ],
)
def test_a_time_without_a_zone_is_that_of_the_lines_that_are_shown(text: str) -> None:
    assert time_us(text) == NOON_US


def test_a_time_keeps_its_microseconds_and_a_day_begins_at_midnight() -> None:
    assert time_us("2026-03-01T12:00:00.000001Z") == NOON_US + 1
    assert time_us("2026-03-01") == NOON_US - 12 * 60 * MINUTE_US


@pytest.mark.parametrize(
    "text", ["", "noon", "2026-13-01", "2026-03-01T25:00", "1969-12-31", "0001-01-01T00:00+14:00", "12:00"]
)
def test_a_bad_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected a time"):
        time_us(text)


def test_a_moment_is_a_time_or_a_duration_before_now() -> None:
    assert moment_us("2026-03-01T11:00", NOON_US) == NOON_US - 60 * MINUTE_US
    assert moment_us("10m", NOON_US) == NOON_US - 10 * MINUTE_US
    assert moment_us("5000w", NOON_US) == 0


@pytest.mark.parametrize("text", ["", "10", "10 minutes", "10m ago", "yesterday"])
def test_a_bad_moment_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected a"):
        moment_us(text, NOON_US)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1000b", 1000),
        ("1k", 1 << 10),
        ("64KiB", 64 << 10),
        ("64 kb", 64 << 10),
        ("8M", 8 << 20),
        ("1.5GiB", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_every_unit_of_size_counts_by_1024(text: str, size: int) -> None:
    assert Size().parse(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "1 P", "1ki", "0x10", "1,000"])
def test_a_bad_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected a size"):
        Size().parse(text)


def test_yes_is_yes_and_no_is_no() -> None:
    assert (YES_OR_NO.parse("yes"), YES_OR_NO.parse("no")) == (True, False)
    with pytest.raises(BadInput, match="expected yes or no"):
        YES_OR_NO.parse("y")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("partitions", "3", 3),
        ("block_size", "1MiB", 1 << 20),
        ("retention_age_s", "7d", 604_800.0),
        ("retention_age_s", "none", None),
        ("retention_bytes", "1G", 1 << 30),
        ("retention_bytes", "none", None),
        ("retention_consumed", "yes", True),
        ("deliver_at", "plain", "plain"),
        ("deliver_at", "none", "none"),
        ("deliver_at", "default", None),
    ],
)
def test_a_setting_is_written_as_a_person_writes_it(name: str, text: str, value: object) -> None:
    assert parse_setting(TOPIC_SETTINGS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("retention_age_s", "30", "retention_age_s: expected a duration such as 500ms"),
        ("retention_consumed", "true", "retention_consumed: expected yes or no, not 'true'"),
        ("partitions", "0", "partitions: expected a whole number from 1 to 1000, not '0'"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_refused_by_name(name: str, text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        parse_setting(TOPIC_SETTINGS[name], text)
