"""Quotas over HTTP: a request is refused if its user is over quota, and charged when its reply is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.quotas.entities import CONSUMED, PRODUCED, REQUESTS, TIME
from warren.broker.quotas.windows import Timed
from warren.broker.security.asker import HTTP_CLIENT
from warren.errors import QuotaExceeded

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.security.peer import Peer
    from warren.gateway.http.connection import Finish

USED: Final = (PRODUCED, CONSUMED, REQUESTS, TIME)


class Spending:
    """Charges the requests of one connection, one after the other. Only the event loop's thread may use it.

    A reply over HTTP cannot ask the client to wait. So the next request is refused until the client has waited.
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
        """Returns `finish` wrapped, so that the time for which it keeps the event loop busy is counted."""
        if self._user is None:
            return finish
        return lambda data: Timed(finish(data), self._broker.metrics.now, self._spend)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def end(self, size_in: int, size_out: int) -> None:
        """Charges the request whose reply was sent, unless it was refused."""
        user, self._user = self._user, None
        if user is not None:
            used = {PRODUCED: size_in, CONSUMED: size_out, REQUESTS: 1.0, TIME: self._spent_s}
            self._broker.quotas.use(user, HTTP_CLIENT, used)
