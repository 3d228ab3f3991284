"""How many bytes of requests may wait in this process: above that nobody reads further until there is room."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Bytes that are taken while they are worked on, up to `size_max`. For the event loop's thread alone.

    What is larger than all there is gets in when nothing else is there: a limit slows down, and refuses nobody.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max, self.size = size_max, 0
        self.is_full = False
        self._waiting: dict[object, Callable[[], None]] = {}

    def take(self, size: int) -> None:
        """`size` bytes more wait."""
        self.size = size = self.size + size
        self.is_full = size >= self.size_max

    def give_back(self, size: int) -> None:
        """They are done with. Those that wait for room are told, when there is some."""
        self.size = size = self.size - size
        self.is_full = size >= self.size_max
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()

    def wait(self, who: object, resume: Callable[[], None]) -> None:
        """Call `resume`, once, when there is room again."""
        self._waiting[who] = resume

    def forget(self, who: object) -> None:
        """`who` waits no longer."""
        self._waiting.pop(who, None)
