"""The metadata of consumers in a classic group: the topics that they subscribe to, and the topics that they were
assigned.

The broker passes these bytes on unchanged. It parses only the names of topics in them.
"""

from __future__ import annotations

from typing import Final

from warren.protocol.primitives import (
    UNREADABLE,
    array_reader,
    fixed_array_reader,
    fixed_reader,
    read_size16,
    read_size32,
    text_reader,
)

_read_version: Final = fixed_reader("int16")
_read_name: Final = text_reader(read_size16, is_nullable=False)
_read_names: Final = array_reader(_read_name, read_size32, is_nullable=False)
_read_partitions: Final = fixed_array_reader("int32", read_size32, is_nullable=False)


def _read_given(data: memoryview, position: int) -> tuple[str, int]:
    name, position = _read_name(data, position)
    _, position = _read_partitions(data, position)
    return name, position


_read_all_given: Final = array_reader(_read_given, read_size32, is_nullable=False)


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Returns the topics that a member subscribes to; none if the bytes cannot be parsed."""
    return _names(metadata, is_given=False)


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """Returns the topics of which a member has partitions; none if the bytes cannot be parsed."""
    return _names(assignment, is_given=True)


def _names(data: bytes, *, is_given: bool) -> frozenset[str]:
    read = _read_all_given if is_given else _read_names
    try:
        _, position = _read_version(memoryview(data), 0)
        names, _ = read(memoryview(data), position)
    except UNREADABLE:
        return frozenset()
    return frozenset(names)
