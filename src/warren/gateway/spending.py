"""What requests over HTTP use of the quotas of who sends them: refused before they are done, charged when they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.quotas.entities import CONSUMED, PRODUCED, REQUESTS, TIME
from warren.broker.quotas.timed import Timed
from warren.broker.security.asker import HTTP_CLIENT
from warren.errors import QuotaExceeded

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.peer import Peer
    from warren.gateway.connection import Finish

USED: Final = (PRODUCED, CONSUMED, REQUESTS, TIME)


class Spending:
    """The requests of one connection, one after the other. For the event loop's thread alone.

    A client over HTTP cannot be told to wait in an answer that it got: its next request is refused until it has waited.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._user: str | None = None
        self._spent_s = 0.0

    def begin(self, peer: Peer) -> None:
        """Raises QuotaExceeded if the user has to wait."""
        quotas = self._broker.quotas
        if not quotas.is_set:
            return
        wait_s = quotas.owed_s(peer.user, HTTP_CLIENT, USED)
        if wait_s:
            raise QuotaExceeded(peer.user, ", ".join(USED), wait_s)
        self._user, self._spent_s = peer.user, 0.0

    def timed(self, finish: Finish) -> Finish:
        """The same, with the time counted that it keeps the event loop busy."""
        if self._user is None:
            return finish
        return lambda data: Timed(finish(data), self._broker.metrics.now, self._spend)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def end(self, size_in: int, size_out: int) -> None:
        """Charges the request that was answered, unless it was refused."""
        user, self._user = self._user, None
        if user is not None:
            used = {PRODUCED: size_in, CONSUMED: size_out, REQUESTS: 1.0, TIME: self._spent_s}
            self._broker.quotas.use(user, HTTP_CLIENT, used)
