"""A network that cuts connections in mid-frame."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.broker.running import HOST
from warren.client.net.connection import parse_address


class Cutter:
    """A proxy on loopback that forwards bytes, and cuts each connection after some of them, inside of any frame."""

    def __init__(self, target: tuple[str, int], seed: int) -> None:
        self._target, self._random = target, random.Random(seed)
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self.cut_count, self.is_cutting = 0, True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                budget = [self._random.randrange(200, 4000) if self.is_cutting else 1 << 40]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink, budget), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, budget: list[int]) -> None:
        with suppress(OSError):
            while data := source.recv(1000):
                sink.sendall(data[: budget[0]])
                budget[0] -= len(data)
                if budget[0] <= 0:
                    self.cut_count += 1
                    break
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting(address: str, seed: int) -> Iterator[Cutter]:
    cutter = Cutter(parse_address(address), seed)
    try:
        yield cutter
    finally:
        cutter.close()
