"""One request on its way through the broker: what was asked, by whom, and what a handler may give for an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.protocol.codec import Buffer
from warren.protocol.heads import Request

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.peer import Peer

Answer = Sequence[Buffer] | None
"""The body of a response; None where the client wants none."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, the broker that serves it, and who sent it."""

    broker: Broker
    peer: Peer
    request: Request

    @property
    def version(self) -> int:
        return self.request.version


Handler = Callable[[Call], Answer | Awaitable[Answer]]
"""Answers at once, on the event loop, or when it is awaited. What blocks belongs behind the door or on a thread."""
