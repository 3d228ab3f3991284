"""How a part of a Produce or Fetch identifies its topic: by its name, or from version 13 on by its id."""

from __future__ import annotations

from typing import Final

from warren.protocol.primitives import UUID_SIZE, Read, Write

TOPIC_IDS_FROM: Final = 13


def read_topic(body: memoryview, position: int, version: int, read_name: Read) -> tuple[str, bytes, int]:
    """Returns the name and the id of a topic, one of which is empty, and the position after them."""
    if version < TOPIC_IDS_FROM:
        name, position = read_name(body, position)
        return name, b"", position
    return "", bytes(body[position : position + UUID_SIZE]), position + UUID_SIZE


def write_topic(out: bytearray, version: int, name: str, topic_id: bytes, write_name: Write) -> None:
    """Writes the name or the id of a topic, as the version says."""
    if version >= TOPIC_IDS_FROM:
        out += topic_id
    else:
        write_name(out, name)
