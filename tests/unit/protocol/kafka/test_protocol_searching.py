"""A name is found at any place, and the checksum that is computed with it is that of all bytes."""

from __future__ import annotations

import pytest

from warren.protocol.kafka import byte_search
from warren.protocol.kafka.byte_search import COPIED_SIZE_MAX, PIECE_SIZE, check_and_search, holds
from warren.storage.format.checksum import crc32c

NAME = b"warren.deliver-at"
SIZES = [0, 1, COPIED_SIZE_MAX, COPIED_SIZE_MAX + 1, PIECE_SIZE, PIECE_SIZE + 1, 2 * PIECE_SIZE, 3 * PIECE_SIZE + 100]


def filled(size: int) -> bytearray:
    """Bytes in which the name begins often, and never ends."""
    begun = NAME[:-1]
    return bytearray((begun * (size // len(begun) + 1))[:size])


@pytest.fixture(params=[True, False], ids=["memmem", "without"])
def _search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(byte_search, "_MEMMEM", None)


@pytest.mark.usefixtures("_search")
@pytest.mark.parametrize("size", SIZES)
def test_a_missing_needle_is_not_found(size: int) -> None:
    data = filled(size)

    assert not holds(memoryview(data), NAME)
    assert check_and_search(memoryview(data), NAME) == (crc32c(data), False)


@pytest.mark.usefixtures("_search")
@pytest.mark.parametrize("size", [size for size in SIZES if size > len(NAME)])
def test_a_needle_is_found_at_either_end_and_across_two_pieces(size: int) -> None:
    edges = range(0, size, PIECE_SIZE)
    places = {0, 1, size - len(NAME)} | {edge - before for edge in edges for before in range(len(NAME) + 1)}
    for place in sorted(place for place in places if 0 <= place <= size - len(NAME)):
        data = filled(size)
        data[place : place + len(NAME)] = NAME

        assert holds(memoryview(data), NAME)
        assert check_and_search(memoryview(data), NAME) == (crc32c(data), True)


def test_the_search_stops_at_the_end() -> None:
    data = filled(2 * PIECE_SIZE) + NAME

    assert check_and_search(memoryview(data)[: 2 * PIECE_SIZE + len(NAME) - 1], NAME)[1] is False
