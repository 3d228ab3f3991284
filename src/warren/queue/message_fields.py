"""What `put` and `put_many` take beside bodies, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class Fields(TypedDict, total=False):
    """Of one message."""

    key: bytes | None
    tag: str
    headers: Mapping[str, bytes] | None
    id: str
    corr_offset: int
    partition: int | None
    reply_to: str


class Columns(TypedDict, total=False):
    """Of several messages: one for each, but for what all share."""

    tag: str
    tags: Sequence[str] | None
    keys: Sequence[bytes | None] | None
    ids: Sequence[str] | None
    headers: Sequence[Mapping[str, bytes] | None] | None
    corr_offsets: Sequence[int] | None
    partition: int | None
