"""Handle: an object that a client has open at the broker, and that it opens again if its connections were lost."""

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
    """One object that a client has open at the broker. Any thread may call.

    If the broker has closed the object, because all connections of the client were lost, the next call opens it again.
    The owner of the handle decides what then happens to uncommitted work. `Opened` is the type of the answer to the
    opening.
    """

    def __init__(
        self,
        calls: Calls,
        opening: Callable[[int], WireRequest[Opened]],
        reopening: Callable[[int], WireRequest[Opened]] | None = None,
    ) -> None:
        """`opening` makes the request that opens the object under a given number. Further requests name that number.

        `reopening` makes the request that opens it again, if that is another one.
        """
        self.calls, self.number = calls, calls.new_handle()
        self._reopening = (reopening or opening)(self.number)
        self.openings = 0
        """How often the object was opened. Each opening starts from a new state at the broker."""
        self.opened = self._open(opening(self.number))

    def _open(self, request: WireRequest[Opened]) -> Opened:
        opened = self.calls.call(request, repeat=same)
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
        """Returns the steps of a call that names the handle and may wait at the broker."""
        return self._trying(lambda: self.calls.waiting(request, wait_s, is_done, repeat=repeat))

    def _trying(self, attempt: Callable[[], Steps[R]]) -> Steps[R]:
        deadline_s = self.calls.clock.steady_s() + self.calls.timeout_s
        while True:
            try:
                return (yield from attempt())
            except NoSuchHandle:
                if self.calls.clock.steady_s() >= deadline_s:
                    raise
                self.opened = self._open(self._reopening)

    def close(self) -> None:
        """Closes the handle at the broker.

        If the broker cannot be reached, it closes the handle when the session ends.
        """
        with suppress(ConnectionLost, NoSuchHandle, StoreClosed):
            self.calls.call(CloseHandleRequest(self.number), repeat=same)
