"""One request on its way through the broker: what was asked, by whom, and what a handler may give for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from warren.broker.security.asker import Asker
from warren.protocol.codec import Buffer
from warren.protocol.heads import Request

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.peer import Peer

T = TypeVar("T")
Answer = Sequence[Buffer] | None
"""The body of a response; None where the client wants none."""


class Later:
    """An answer that comes later, without a task or a future: for requests that are many. For the loop's thread alone.

    Whoever gives it to the connection calls `told` once, with the answer or with what went wrong, and not before the
    connection has had the chance to say who that is.
    """

    __slots__ = ("told",)
    told: Callable[[Answer | BaseException], None]

    def tell(self, answer: Callable[[T], Answer], outcome: T) -> None:
        """Tell what `answer` makes of the outcome, or what goes wrong with that."""
        try:
            found: Answer | BaseException = answer(outcome)
        except BaseException as error:  # noqa: BLE001  # It is told to whoever waits.
            found = error
        self.told(found)


class Parked(Later):
    """One that may wait for long, for `rung`. Dropped where the connection ends first: nobody wants it any more."""

    __slots__ = ("is_dropped", "rung")
    rung: asyncio.Future[None]

    def __init__(self) -> None:
        self.is_dropped = False

    def drop(self) -> None:
        """Wait no longer, nor once more where it is just being woken."""
        self.is_dropped = True
        self.rung.cancel()


class Call(Asker):
    """A request, the broker that serves it, and who sent it. Nobody changes it."""

    __slots__ = ("broker", "peer", "request", "version")

    def __init__(self, broker: Broker, peer: Peer, request: Request) -> None:
        self.broker, self.peer, self.request = broker, peer, request
        self.version = request.version

    @property
    def client_id(self) -> str:
        return self.request.client_id or ""


Handler = Callable[[Call], Answer | Awaitable[Answer]]
"""Answers at once, on the event loop, or when it is awaited. What blocks belongs behind the door or on a thread."""
AnyHandler = Callable[[Call], Answer | Awaitable[Answer] | Later]
