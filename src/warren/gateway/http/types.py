"""Requests and replies as values, independent of sockets and of the bytes of HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from warren.broker.security.asker import Asker
from warren.broker.security.needs import NeedsRow, check

if TYPE_CHECKING:
    from warren.broker.security.peer import Peer
    from warren.gateway.http.services import GatewayServices

JSON: Final = "application/json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """A request without its body. Names of headers are in lower case; `path` is as the client sent it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    host: str
    port: int

    @property
    def target(self) -> str:
        """Returns path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A reply."""

    status: int
    body: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest(Asker):
    """A request whose path, query and body match their schemas, and the peer that sent it.

    `row` names the rights that it needs. `is_gone` returns whether the client has closed the connection.
    """

    broker: GatewayServices
    peer: Peer
    row: NeedsRow
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    is_gone: Callable[[], bool] = lambda: False

    def deadline_s(self, wait_s: float) -> float:
        """Returns the end of a wait of `wait_s` by the event loop's clock. The broker limits the wait."""
        return asyncio.get_running_loop().time() + min(wait_s, self.broker.limits.fetch_wait_s_max)

    def check(self) -> None:
        """Raises NoRight if the user lacks a right that the request needs, as far as the request has been read."""
        check(self, self.row, self)


def json_reply(document: object, status: int = 200) -> HttpReply:
    """Returns a reply with the document as JSON."""
    return HttpReply(status=status, body=json.dumps(document, ensure_ascii=False).encode() + b"\n")
