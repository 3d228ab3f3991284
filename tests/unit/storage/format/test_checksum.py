"""The checksum of two pieces is computed from theirs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.storage.format.checksum import crc32c, crc32c_joined


@given(first=st.binary(max_size=100), second=st.binary(max_size=2000), times=st.integers(0, 200))
def test_the_joined_checksum_equals_that_of_the_joined_bytes(first: bytes, second: bytes, times: int) -> None:
    second = second * times

    joined = crc32c_joined(crc32c(first), crc32c(second), len(second))

    assert joined == crc32c(first + second)


def test_pieces_of_every_size_are_joined() -> None:
    for doublings in range(24):
        piece = bytes(range(1, 256)) * ((1 << doublings) // 255 + 1)
        for size in ((1 << doublings) - 1, 1 << doublings):
            assert crc32c_joined(crc32c(b"before"), crc32c(piece[:size]), size) == crc32c(b"before" + piece[:size])
