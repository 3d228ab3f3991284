"""Handle: an object that a client has open at the broker, and opens again if its connections were lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from warren.client.net.call_steps import Steps, run
from warren.client.net.session import Calls, Repeat, same
from warren.errors import ConnectionLost, NoSuchHandle, StoreClosed
from warren.protocol.native_messages import CloseHandleRequest
from warren.protocol.wire_struct import NativeResponse, WaitingRequest, WireRequest

Opened = TypeVar("Opened", bound=NativeResponse)
R = TypeVar("R", bound=NativeResponse)


class Handle(Generic[Opened]):
    """One object at the broker that a client has open. Any thread may call.

    If the broker has closed it, because all connections of the client were lost, the next call opens it again. The
    owner of the handle decides what that means for what was not committed. `Opened` is the answer to its opening.
    """

    def __init__(self, calls: Calls, opening: Callable[[int], WireRequest[Opened]]) -> None:
        """`opening` makes the request that opens the object by a number, which further requests name."""
        self.calls, self.number = calls, calls.new_handle()
        self._opening = opening(self.number)
        self.openings = 0
        """How often it was opened: what the broker knew of it before, it knows no more."""
        self.opened = self._open()

    def _open(self) -> Opened:
        opened = self.calls.call(self._opening, repeat=same)
        self.openings += 1
        return opened

    def call(self, request: WireRequest[R], *, repeat: Repeat | None = same) -> R:
        """Returns the answer to a request that names the handle."""
        return run(self._trying(lambda: self.calls.calling(request, repeat=repeat)))

    def waiting(
        self,
        request: WaitingRequest[R],
        wait_s: float,
        is_done: Callable[[R], bool],
        *,
        repeat: Repeat | None = same,
    ) -> Steps[R]:
        """Returns the steps of a call that names the handle, and waits at the broker."""
        return self._trying(lambda: self.calls.waiting(request, wait_s, is_done, repeat=repeat))

    def _trying(self, attempt: Callable[[], Steps[R]]) -> Steps[R]:
        deadline_s = self.calls.clock.steady_s() + self.calls.timeout_s
        while True:
            try:
                return (yield from attempt())
            except NoSuchHandle:
                if self.calls.clock.steady_s() >= deadline_s:
                    raise
                self.opened = self._open()

    def close(self) -> None:
        """Closes the handle at the broker. If the broker cannot be reached, it closes the handle with the session."""
        with suppress(ConnectionLost, NoSuchHandle, StoreClosed):
            self.calls.call(CloseHandleRequest(self.number), repeat=same)
