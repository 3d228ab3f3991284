"""A clock that moves only when the test moves it, or when a caller sleeps on it."""

from __future__ import annotations

from typing import Final

START_NS: Final = 1_700_000_000 * 1_000_000_000


class SimulatedClock:
    """Wall time may be set back, as it may on a real machine; steady time never is."""

    def __init__(self, wall_ns: int = START_NS) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = 0

    def now_ns(self) -> int:
        return self._wall_ns

    def steady_s(self) -> float:
        return self._steady_ns / 1e9

    def sleep(self, seconds: float) -> None:
        self.pass_ns(int(seconds * 1e9))

    def pass_ns(self, nanoseconds: int) -> None:
        self._wall_ns += nanoseconds
        self._steady_ns += nanoseconds

    def set_back_ns(self, nanoseconds: int) -> None:
        self._wall_ns -= nanoseconds

    def start_anew(self, wall_ns: int) -> None:
        """The machine was off until that time."""
        self._wall_ns, self._steady_ns = wall_ns, 0
