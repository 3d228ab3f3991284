"""What was answered over HTTP, as plain numbers, by route and status."""

from __future__ import annotations

from typing import Final

NO_ROUTE: Final = "none"
"""All paths that lead nowhere are counted as one: anybody can make up more of them."""


class Counts:
    """Requests over HTTP. For the event loop's thread alone; a number is only ever raised."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.size_in = self.size_out = 0

    def answered(self, route: str, status: int, size_in: int, size_out: int) -> None:
        """A request was answered; `route` is its method and path as the table of routes has them."""
        key = route, status
        self.requests[key] = self.requests.get(key, 0) + 1
        self.size_in += size_in
        self.size_out += size_out
