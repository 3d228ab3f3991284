"""Hides paths of the server in what clients are told of errors: they are told which topic and partition lies there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TAIL: Final = r"(?:/[^\s'\":;,()]*)?"
"""What may follow the path of a store within a sentence: names of directories and files below it."""
THE_STORE: Final = "the store"


def without_paths(store_path: str, text: str) -> str:
    """The text, in which each path below `store_path` is replaced by the topic, partition or group that lies there."""
    if store_path not in text:
        return text
    return re.sub(re.escape(store_path) + TAIL, lambda found: _place(found[0][len(store_path) :].split("/")[1:]), text)


def _place(parts: Sequence[str]) -> str:
    """What lies at a path that has these parts below the store."""
    match parts:
        case ["topics", topic, "groups", group, *_]:
            return f"group {group!r} of topic {topic!r}"
        case ["topics", topic, partition, *_] if partition.isdigit():
            return f"partition {partition} of topic {topic!r}"
        case ["topics", topic, *_]:
            return f"topic {topic!r}"
    return THE_STORE
