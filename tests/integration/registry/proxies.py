"""A proxy between a client and a ZooKeeper that swallows answers or requests, or cuts connections at random."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from random import Random
from typing import Final

HOST: Final = "127.0.0.1"
PIECE: Final = 64 << 10


class Proxy:
    """Listens on loopback until it is closed. `swallows_answers` and `swallows_requests` may be set at any time.

    With `cut_rate` each piece of data may be the last one of its connection, before or after it passed.
    """

    def __init__(self, target: tuple[str, int], cut_rate: float = 0.0, seed: int = 0) -> None:
        self.swallows_answers = False
        self.swallows_requests = False
        self.cut_rate = cut_rate
        self.cuts = 0
        self._random = Random(seed)
        self._target = target
        self._listener = socket.create_server((HOST, 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._connections:
            _end(connection)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            self._connections += [near, far]
            for source, sink, is_answer in ((near, far, False), (far, near, True)):
                thread = threading.Thread(target=self._forward, args=[source, sink, is_answer])
                self._threads.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                is_cut = self._random.random() < self.cut_rate
                if is_cut and self._random.random() < 0.5:
                    self.cuts += 1
                    break
                if not (self.swallows_answers if is_answer else self.swallows_requests):
                    sink.sendall(piece)
                if is_cut:
                    self.cuts += 1
                    break
        _end(source)
        _end(sink)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
