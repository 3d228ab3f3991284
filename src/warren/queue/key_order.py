"""Messages of one key, one after the other: which of those that are outstanding may be handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from warren.storage.checksum import crc32c


def key_hash(key: bytes) -> int:
    """What stands for a key. Two keys of the same hash wait for each other, and that is all that comes of it."""
    return crc32c(key)


class KeyOrder:
    """The outstanding messages of each key in one partition, in the order of their numbers.

    Only the first of a key may be handed out. Messages without a key are not known here, and free.
    """

    def __init__(self) -> None:
        self._keys: dict[int, int] = {}
        self._lines: dict[int, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Each number with its key, as they were added."""
        return iter(self._keys.items())

    @property
    def behind_count(self) -> int:
        """How many messages wait for another one of their key."""
        return len(self._keys) - len(self._lines)

    def has(self, key: int) -> bool:
        """Whether a message of this key is outstanding."""
        return key in self._lines

    def is_first(self, number: int) -> bool:
        """Whether no earlier message of its key is outstanding."""
        key = self._keys.get(number)
        return key is None or self._lines[key][0] == number

    def add(self, number: int, key: int) -> None:
        """`number` is outstanding, behind all others of its key."""
        self._keys[number] = key
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque((number,))
        else:
            line.append(number)

    def remove(self, number: int) -> int | None:
        """`number` is done with; the message that is the first of its key by that, None where there is none."""
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
