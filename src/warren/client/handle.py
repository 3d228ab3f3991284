"""Handle: something that a client has open at the broker, and opens again where its connections ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warren.client.calls import Calls, Repeat, same
from warren.client.steps import Steps, run
from warren.errors import ConnectionLost, NoSuchHandle, StoreClosed
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_schemas import OwnKey


class Handle:
    """One thing at the broker. Any thread may call.

    Where the broker has let go of it, because all connections of the client were lost, it is opened anew by the next
    call. What that means for what was not committed is for the one whose handle this is.
    """

    def __init__(self, calls: Calls, key: OwnKey, values: dict[str, Any]) -> None:
        self.calls, self.number = calls, calls.new_handle()
        self._key, self._values = key, values
        self.openings = 0
        """How often it was opened: what the broker knew of it before, it knows no more."""
        self.opened = self._open()

    def _open(self) -> Fields:
        opened = self.calls.call(self._key, {**self._values, "handle": self.number}, repeat=same)
        self.openings += 1
        return opened

    def call(self, key: OwnKey, values: dict[str, Any], *, repeat: Repeat | None = same) -> Fields:
        """The answer to a call that names the handle."""
        asked = {**values, "handle": self.number}
        return run(self._trying(lambda: self.calls.calling(key, asked, repeat=repeat)))

    def waiting(
        self,
        key: OwnKey,
        values: dict[str, Any],
        wait_s: float,
        is_done: Callable[[Fields], bool],
        *,
        repeat: Repeat | None = same,
    ) -> Steps[Fields]:
        """The steps of one that waits at the broker."""
        asked = {**values, "handle": self.number}
        return self._trying(lambda: self.calls.waiting(key, asked, wait_s, is_done, repeat=repeat))

    def _trying(self, attempt: Callable[[], Steps[Fields]]) -> Steps[Fields]:
        deadline_s = self.calls.clock.steady_s() + self.calls.timeout_s
        while True:
            try:
                return (yield from attempt())
            except NoSuchHandle:
                if self.calls.clock.steady_s() >= deadline_s:
                    raise
                self.opened = self._open()

    def close(self) -> None:
        """The broker closes it, if it can be reached; otherwise it does so by itself."""
        with suppress(ConnectionLost, NoSuchHandle, StoreClosed):
            self.calls.call(OwnKey.CLOSE_HANDLE, {"handle": self.number}, repeat=same)
