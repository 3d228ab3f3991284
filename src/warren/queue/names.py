"""What topics, groups, producers and queues may be called."""

from __future__ import annotations

import re
from typing import Final

from warren.config import NAME_SIZE_MAX
from warren.errors import BadName

ALLOWED: Final = re.compile(r"[A-Za-z0-9._-]+")


def checked_name(what: str, name: object, size_max: int = NAME_SIZE_MAX) -> str:
    """`name`, where it can be the name of a `what` and of a directory; BadName where it cannot."""
    if not isinstance(name, str):
        raise BadName(what, repr(name), "a name is a str")
    if not name or len(name.encode(errors="replace")) > size_max:
        raise BadName(what, name, f"a name has 1 to {size_max} bytes")
    if not ALLOWED.fullmatch(name):
        raise BadName(what, name, "a name consists of letters, digits, '.', '_' and '-'")
    if name.startswith("."):
        raise BadName(what, name, "a name does not start with a dot")
    return name
