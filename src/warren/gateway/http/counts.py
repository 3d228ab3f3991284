"""Counts the replies over HTTP by route and status, and their bytes."""

from __future__ import annotations

from typing import Final

NO_ROUTE: Final = "none"
"""Requests to unknown paths are counted as one route, because clients can invent any number of paths."""


class Counts:
    """Counts of replies. Only the event loop's thread may use it. A number never decreases."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.size_in = self.size_out = 0

    def answered(self, route: str, status: int, size_in: int, size_out: int) -> None:
        """Counts one reply. `route` is the method and path as in the table of routes."""
        key = route, status
        self.requests[key] = self.requests.get(key, 0) + 1
        self.size_in += size_in
        self.size_out += size_out
