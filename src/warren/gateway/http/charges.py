"""Quotas over HTTP: a request is refused if its user is over quota, and charged when its reply is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warren.broker.quotas.entities import CONSUMED, PRODUCED, REQUESTS, TIME
from warren.broker.quotas.windows import Timed
from warren.broker.security.asker import HTTP_CLIENT
from warren.errors import QuotaExceeded

if TYPE_CHECKING:
    from warren.broker.quotas.quotas import Quotas
    from warren.broker.security.peer import Peer
    from warren.gateway.http.connection import Finish

USED: Final = (PRODUCED, CONSUMED, REQUESTS, TIME)


class Spending:
    """Charges the requests of one connection, one after the other. Only the event loop's thread may use it.

    A reply over HTTP cannot ask the client to wait. So the next request is refused until the client has waited.
    `now_s` is the clock that measures the requests.
    """

    def __init__(self, quotas: Quotas, now_s: Callable[[], float]) -> None:
        self._quotas, self._now_s = quotas, now_s
        self._user: str | None = None
        self._spent_s = 0.0

    def begin(self, peer: Peer) -> None:
        """Raises QuotaExceeded if the user has to wait."""
        if not self._quotas.is_set:
            return
        wait_s = self._quotas.owed_s(peer.user, HTTP_CLIENT, USED)
        if wait_s:
            raise QuotaExceeded(peer.user, ", ".join(USED), wait_s)
        self._user, self._spent_s = peer.user, 0.0

    def timed(self, finish: Finish) -> Finish:
        """Returns `finish` wrapped, so that the time for which it keeps the event loop busy is counted."""
        if self._user is None:
            return finish
        return lambda data: Timed(finish(data), self._now_s, self._spend)

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def end(self, size_in: int, size_out: int) -> None:
        """Charges the request whose reply was sent, unless it was refused."""
        user, self._user = self._user, None
        if user is not None:
            used = {PRODUCED: size_in, CONSUMED: size_out, REQUESTS: 1.0, TIME: self._spent_s}
            self._quotas.use(user, HTTP_CLIENT, used)
