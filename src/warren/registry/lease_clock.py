"""How long the session of a client is certain to live, measured by the client itself."""

from __future__ import annotations

from threading import Lock

from warren.clock import Clock


class LeaseClock:
    """Counts from the time at which the last answered request was sent. Any thread may use it.

    The server restarts the timeout of a session when it receives a request, which is later than when the client sent
    it. So the session is alive at the server at least as long as this clock says, except for one tick of the server if
    a follower dies after it answered. Nothing that was acknowledged may depend on it. While no server answers, kazoo
    does not report that a session is over, so callers rely on this clock.
    """

    def __init__(self, session_s: float, clock: Clock) -> None:
        self._session_s = session_s
        self._clock = clock
        self._lock = Lock()
        self._sent_s: float | None = None
        self._began_s = clock.steady_s()

    def sent(self) -> float:
        """Returns the time at which a request is sent, for `answered`."""
        return self._clock.steady_s()

    def answered(self, sent_s: float) -> None:
        """Records that a request was answered. Answers may come in any order. Ignores an answer for
        an older session.
        """
        with self._lock:
            if sent_s >= self._began_s and (self._sent_s is None or sent_s > self._sent_s):
                self._sent_s = sent_s

    def agreed(self, session_s: float) -> None:
        """Sets the session timeout on which the server insisted."""
        with self._lock:
            self._session_s = session_s

    def over(self) -> None:
        """Records that a server said that the session is over."""
        with self._lock:
            self._sent_s = None
            self._began_s = self._clock.steady_s()

    @property
    def session_s(self) -> float:
        """Returns the session timeout."""
        return self._session_s

    def remaining_s(self) -> float:
        """Returns how long the session is certain to live: 0.0 if it may be over, or if there was none yet."""
        with self._lock:
            if self._sent_s is None:
                return 0.0
            return max(0.0, self._sent_s + self._session_s - self._clock.steady_s())
