"""Every limit: a value just within it is accepted, a value just over it is TooLarge, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import VERSIONS, quick_log
from warren.errors import MalformedFilter, TooLarge
from warren.storage import Log

BLOCK_SIZE = 256 << 10
KEY_MAX = 65_534
HEADERS_MAX = 65_535
HEADER_SIZES = 3
HEAD_SIZES = {1: 204, 2: 56}

FIELDS: dict[str, tuple[int, str, int, int, dict[str, Any], dict[str, Any]]] = {
    "tag": (2, "tag", 129, 128, {"tag": "x" * 128}, {"tag": "x" * 129}),
    "tag in two-byte letters": (2, "tag", 130, 128, {"tag": "ü" * 64}, {"tag": "ü" * 65}),
    "tag of version 1": (1, "tag", 128, 127, {"tag": "x" * 127}, {"tag": "x" * 128}),
    "id": (2, "id", 41, 40, {"id": "x" * 40}, {"id": "x" * 41}),
    "id of version 1": (1, "id", 40, 39, {"id": "x" * 39}, {"id": "x" * 40}),
    "key": (2, "key", KEY_MAX + 1, KEY_MAX, {"key": bytes(KEY_MAX)}, {"key": bytes(KEY_MAX + 1)}),
    "header name": (2, "header name", 256, 255, {"headers": {"x" * 255: b""}}, {"headers": {"x" * 256: b""}}),
    "header value": (
        2,
        "header 'a'",
        HEADERS_MAX + 1,
        HEADERS_MAX,
        {"headers": {"a": bytes(HEADERS_MAX - HEADER_SIZES - 1)}},
        {"headers": {"a": bytes(HEADERS_MAX + 1)}},
    ),
    "headers": (
        2,
        "headers",
        HEADERS_MAX + 1,
        HEADERS_MAX,
        {"headers": {"a": bytes(30_000), "b": bytes(HEADERS_MAX - 30_000 - 2 * HEADER_SIZES - 2)}},
        {"headers": {"a": bytes(30_000), "b": bytes(HEADERS_MAX - 30_000 - 2 * HEADER_SIZES - 1)}},
    ),
}


def _as_columns(fields: dict[str, Any]) -> dict[str, Any]:
    return {name if name == "headers" else name + "s": [value] for name, value in fields.items()}


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize(("version", "field", "size", "size_max", "fits", "over"), FIELDS.values(), ids=FIELDS.keys())
def test_a_field_over_its_limit_is_too_large_and_nothing_changes(
    tmp_path: Path,
    durability: str,
    version: int,
    field: str,
    size: int,
    size_max: int,
    fits: dict[str, Any],
    over: dict[str, Any],
) -> None:
    with quick_log(tmp_path, version=version, durability=durability, block_size=BLOCK_SIZE) as log:
        log.append(b"single", **fits)
        log.append_many([b"batch"], **_as_columns(fits))
        before = _content(log)

        with pytest.raises(TooLarge) as single:
            log.append(b"single", **over)
        with pytest.raises(TooLarge) as batch:
            log.append_many([b"batch"], **_as_columns(over))

        for refused in (single.value, batch.value):
            assert (refused.what, refused.size, refused.size_max) == (field, size, size_max)
            assert str(refused) == f"{field} of {size} bytes is over the limit of {size_max} bytes"
        assert _content(log) == before
        stored = [getattr(message, name) for message in log.read(0) for name in fits]
        assert stored == [value for _ in range(2) for value in fits.values()]


def test_a_tag_for_all_over_its_limit_is_too_large(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        with pytest.raises(TooLarge, match="tag of 129 bytes"):
            log.append_many([b"one"], tag="x" * 129)

        assert log.end == 0


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("block_size", [4096, 40 << 10])
def test_a_body_fits_up_to_the_capacity_of_a_block(
    tmp_path: Path, version: int, durability: str, block_size: int
) -> None:
    with quick_log(tmp_path, version=version, durability=durability, block_size=block_size) as log:
        log.append(b"first")
        with pytest.raises(TooLarge, match="over the limit") as refused:
            log.append(bytes(block_size + 1))
        largest = refused.value.size_max - HEAD_SIZES[version]
        end, before = log.end, log.read(0)

        with pytest.raises(TooLarge):
            log.append(bytes(largest + 1))
        with pytest.raises(TooLarge):
            log.append_many([b"good", bytes(block_size + 1)])

        assert (log.end, log.read(0)) == (end, before)
        log.append(b"x" * largest)
        log.append(b"after")
        assert [len(message.body) for message in log.read(0)] == [5, largest, 5]
        assert log.verify().messages == 3
        assert largest > block_size // 2


def test_the_largest_body_is_known_beforehand_in_version_1(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        with pytest.raises(TooLarge) as refused:
            log.append(bytes(4096))

        assert (refused.value.size, refused.value.size_max) == (4096 + 204, 4096)


@pytest.mark.parametrize("durability", ["commit", "os", "interval:50ms"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_has_its_own_limit(
    tmp_path: Path, version: int, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That limit is 128 MiB; a smaller one stands for it here."""
    for name in ("format.record", "format.packing", "log"):
        monkeypatch.setattr(f"warren.storage.{name}.BODY_SIZE_MAX", 20_000)
    with quick_log(tmp_path, version=version, durability=durability) as log:
        log.append(bytes(20_000))
        log.append_many([bytes(20_000)])

        with pytest.raises(TooLarge, match="body of 20001 bytes is over the limit of 20000 bytes"):
            log.append(bytes(20_001))
        with pytest.raises(TooLarge, match="body of 20001 bytes is over the limit of 20000 bytes"):
            log.append_many([b"good", bytes(20_001)])

        assert log.end == 2


def test_a_batch_of_more_messages_than_a_record_holds_is_several_records(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        numbers = log.append_many([b""] * 65_537)

        assert numbers == range(65_537)
        assert log.verify().records == 2
        assert log.last(2)[0].number == 65_535


def test_a_batch_of_more_bytes_than_a_record_aims_at_is_several_records(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append_many([bytes(1 << 20)] * 9)

        assert log.verify().records == 3


@pytest.mark.parametrize(("version", "size_max"), [(1, 127), (2, 128)])
def test_a_filter_of_the_largest_size_is_kept(tmp_path: Path, version: int, size_max: int) -> None:
    text = "x" * size_max
    with quick_log(tmp_path, version=version) as log:
        log.append(b"yes", tag=text[:127])

        assert log.reader("billing", tag=text).tag == text
        assert log.reader("billing").tag == text
        assert log.reader("other", tag=text[:127]).read()[0].body == b"yes"


@pytest.mark.parametrize(("version", "size"), [(1, 128), (1, 129), (2, 129)])
def test_a_filter_over_its_limit_is_refused_and_makes_no_reader(tmp_path: Path, version: int, size: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        with pytest.raises((MalformedFilter, TooLarge), match=f"{size} bytes is over the limit"):
            log.reader("billing", tag="x" * size)

        assert log.readers() == []


def _content(log: Log) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path(log.path).iterdir())}
