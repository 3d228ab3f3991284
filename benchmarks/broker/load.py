"""Many connections from one small process: each sends its frame, and again when it is answered.

It is not part of the measurement, so it must not take the time: one loop over epoll, no parsing, no objects.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

READY: Final = "ready"
RECEIVED_MAX: Final = 65_536
PATIENCE_S: Final = 30.0
SIZE_BYTES: Final = 4


@contextmanager
def connected(port: int, count: int) -> Iterator[Sequence[socket.socket]]:
    sockets = []
    try:
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(one)
        yield sockets
    finally:
        for one in sockets:
            one.close()


def answered_size(one: socket.socket, frame: bytes) -> int:
    """The size of the answer to `frame`, whose answers all have the same."""
    one.sendall(frame)
    received = one.recv(RECEIVED_MAX)
    assert len(received) == SIZE_BYTES + int.from_bytes(received[:SIZE_BYTES], "big"), "an answer in pieces"
    return len(received)


def put_for(port: int, count: int, seconds: float, frame: bytes) -> dict[str, float]:
    """Returns how many requests `count` connections have answered in `seconds`, each waiting for its answer before the
    next.
    """
    with connected(port, count) as sockets:
        (size,) = {answered_size(one, frame) for one in sockets}
        poll = select.epoll()
        by_file = {one.fileno(): one for one in sockets}
        for file in by_file:
            poll.register(file, select.EPOLLIN)
        answers, cpu_s, start = 0, time.process_time(), time.perf_counter()
        deadline_s = start + seconds
        for one in sockets:
            one.send(frame)
        while time.perf_counter() < deadline_s:
            for file, _ in poll.poll(PATIENCE_S):
                one = by_file[file]
                assert len(one.recv(RECEIVED_MAX)) == size, "another answer than the first"
                one.send(frame)
                answers += 1
        taken_s = time.perf_counter() - start
        return {"answers": answers, "seconds": taken_s, "cpu": (time.process_time() - cpu_s) / taken_s}


def wait_forever(port: int, count: int, frame: bytes) -> None:
    """Sends requests on `count` connections, and again whenever an answer comes."""
    with connected(port, count) as sockets:
        poll = select.epoll()
        by_file = {one.fileno(): one for one in sockets}
        for file, one in by_file.items():
            poll.register(file, select.EPOLLIN)
            one.send(frame)
        print(READY, flush=True)
        while True:
            for file, _ in poll.poll():
                one = by_file[file]
                assert one.recv(RECEIVED_MAX), "the broker closed a connection"
                one.send(frame)


def main(task: str, port: str, count: str, seconds: str = "0") -> None:
    frame = sys.stdin.buffer.read()
    if task == "put":
        print(json.dumps(put_for(int(port), int(count), float(seconds), frame)))
    else:
        wait_forever(int(port), int(count), frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
