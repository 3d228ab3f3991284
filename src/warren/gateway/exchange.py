"""What is asked and answered over HTTP, as values: free of sockets, and of what HTTP looks like on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from warren.broker.security.asker import Asker
from warren.broker.security.needs import Row, check

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.peer import Peer

JSON: Final = "application/json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request without its body: names of headers are in lower case, and `path` is as it was sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer."""

    status: int
    body: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Asker):
    """A request whose parts were checked: what stood in the path, in the query and in the body, and who asks.

    `row` is what it needs rights for. `is_gone` tells whether the client still waits for the answer.
    """

    broker: Broker
    peer: Peer
    row: Row
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    is_gone: Callable[[], bool] = lambda: False

    def deadline_s(self, wait_s: float) -> float:
        """Until when a request may wait that asks for so long, by the event loop's time."""
        return asyncio.get_running_loop().time() + min(wait_s, self.broker.limits.fetch_wait_s_max)

    def check(self) -> None:
        """Raises NoRight if the user has not the rights that the request needs, as far as it has been read."""
        check(self, self.row, self)


def json_reply(document: object, status: int = 200) -> Reply:
    """The document as an answer."""
    return Reply(status=status, body=json.dumps(document, ensure_ascii=False).encode() + b"\n")
