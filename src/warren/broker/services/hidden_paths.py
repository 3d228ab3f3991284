"""Replaces paths of the server in the error messages for clients by the topic, partition or group at that path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TAIL: Final = r"(?:/[^\s'\":;,()]*)?"
"""Matches what may follow the path of a store within a sentence: names of directories and files below it."""
THE_STORE: Final = "the store"


def without_paths(store_path: str, text: str) -> str:
    """Returns the text with each path below `store_path` replaced by the topic, partition or group at that path."""
    if store_path not in text:
        return text
    return re.sub(re.escape(store_path) + TAIL, lambda match: _place(match[0][len(store_path) :].split("/")[1:]), text)


def _place(parts: Sequence[str]) -> str:
    """Returns the name of the object at a path with these parts below the store."""
    match parts:
        case ["topics", topic, "groups", group, *_]:
            return f"group {group!r} of topic {topic!r}"
        case ["topics", topic, partition, *_] if partition.isdigit():
            return f"partition {partition} of topic {topic!r}"
        case ["topics", topic, *_]:
            return f"topic {topic!r}"
    return THE_STORE
