"""Hands out messages of one key one after the other: knows which outstanding messages may be handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from warren.storage.format.checksum import crc32c


def key_hash(key: bytes) -> int:
    """Returns a hash that stands for a key.

    If two keys have the same hash, their messages wait for each other, which does no harm.
    """
    return crc32c(key)


class KeyOrder:
    """The outstanding messages of each key in one partition, by number.

    Only the first message of a key may be handed out. Messages without a key are not included.
    """

    def __init__(self) -> None:
        self._keys: dict[int, int] = {}
        self._lines: dict[int, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yields each number with its key, in the order in which they were added."""
        return iter(self._keys.items())

    @property
    def behind_count(self) -> int:
        """How many messages wait for another message of their key."""
        return len(self._keys) - len(self._lines)

    def has(self, key: int) -> bool:
        """Returns whether a message of this key is outstanding."""
        return key in self._lines

    def is_first(self, number: int) -> bool:
        """Returns whether no earlier message of the same key is outstanding."""
        key = self._keys.get(number)
        return key is None or self._lines[key][0] == number

    def add(self, number: int, key: int) -> None:
        """Adds an outstanding message behind all others of its key."""
        self._keys[number] = key
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque((number,))
        else:
            line.append(number)

    def remove(self, number: int) -> int | None:
        """Removes a message that is done. Returns the next message of its key, which is now the first, or None."""
        key = self._keys.pop(number, None)
        if key is None:
            return None
        line = self._lines[key]
        was_first = line[0] == number
        line.remove(number)
        if not line:
            del self._lines[key]
            return None
        return line[0] if was_first else None
