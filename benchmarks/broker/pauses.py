"""Pauses: how long another client waits while a broker answers the largest request of each kind.

`python -m benchmarks.broker.pauses [--only NAME] [--part largest|cold] [--json PATH] [--partitions N]`. A witness in
its own process requests ApiVersions every few milliseconds. The table shows its longest wait during each request. The
exit code is 1 if it waited for more than 100 ms.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import warren
from benchmarks.broker import cold, largest
from benchmarks.broker.servers import HOST, WARREN
from tests.support.message_values import encode_request
from warren.limits import PARTITIONS_MAX
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.headers import Request, request_frame
from warren.protocol.kafka.fetch import FETCH_PARTITIONS_MAX
from warren.protocol.kafka.produce import PRODUCE_PARTITIONS_MAX
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32
from warren.storage.format.kafka_batch import pack_kafka

WITNESS_EVERY_S: Final = 0.005
ANSWER_S_MAX: Final = 60.0
QUIET_S: Final = 1.0
"""How long the witness runs alone, for comparison."""
PAUSE_S_MAX: Final = 0.1
"""The longest wait of the witness with which the command succeeds."""
PARTITIONS: Final = min(PRODUCE_PARTITIONS_MAX, FETCH_PARTITIONS_MAX)
"""As many as one request may name."""
SMALL_TOPICS: Final = 200
ALL: Final = "all"
LARGEST: Final = "largest"
COLD: Final = "cold"
SESSION: Final = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one request, and how long the witness waited during it."""

    name: str
    what: str
    size: int
    answer_size: int | None
    seconds: float
    longest_ms: float
    typical_ms: float


class Wire:
    """One connection over Kafka's framing."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, key: int, version: int, body: bytes) -> int | None:
        """Returns the size of the answer; None if the connection was closed, or nothing came in time."""
        head = Request(key, version, 1, "pauses", memoryview(body))
        frame = request_frame(head, is_flexible=APIS[key].is_flexible(version))
        try:
            self._socket.sendall(INT32.pack(len(frame)) + frame)
            (size,) = INT32.unpack(self._receive(INT32.size))
            self._receive(size)
        except OSError:
            return None
        return int(size)

    def _receive(self, size: int) -> bytes:
        last, missing = b"", size
        while missing:
            last = self._socket.recv(min(missing, 1 << 20))
            if not last:
                raise ConnectionError
            missing -= len(last)
        return last

    def close(self) -> None:
        self._socket.close()


def witness(port: int, pipe: Connection) -> None:
    """Requests ApiVersions until it has to end; on request it returns the waits since the last request."""
    wire, body = Wire(port), encode_request(ApiKey.API_VERSIONS, 0, {})
    waits: list[float] = []
    while True:
        begun = perf_counter()
        wire.ask(ApiKey.API_VERSIONS, 0, body)
        waits.append(perf_counter() - begun)
        if pipe.poll(WITNESS_EVERY_S):
            if pipe.recv() is None:
                return
            pipe.send(waits)
            waits = []


@contextmanager
def witnessed(port: int) -> Iterator[Connection]:
    """A pipe to a witness in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=witness, args=(port, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        with suppress(OSError):
            ours.send(None)
        process.join(ANSWER_S_MAX)
        if process.is_alive():
            process.terminate()


def waits_of(pipe: Connection) -> list[float]:
    pipe.send(True)
    waits: list[float] = pipe.recv()
    return waits


def prepare(path: Path, partitions: int) -> None:
    """A store with many topics, topics of many partitions, one to filter and two whose batches unpack to much."""
    with warren.open(path, durability="os") as store:
        for name, count in largest.wide_topics(partitions).items():
            store.topic(name, count)
        wide = store.topic(largest.WIDE)
        wide.put_many([b"x" * 100] * 100_000, partition=0)
        wide.group("stream").close()
        tagged = store.topic(largest.TAGGED, compression="none")
        for _ in range(largest.TAGGED_COUNT):
            tagged.put(bytes(1 << 20), tag="other")
        for name, made in largest.MADE.items():
            store.topic(name).partition(0).append_packed([pack_kafka(made())])
        for number in range(SMALL_TOPICS):
            store.topic(largest.SMALL.format(number))


@contextmanager
def served(path: Path) -> Iterator[tuple[int, int]]:
    """Returns the ports of a broker in its own process, for Kafka's protocol and for HTTP."""
    command = [sys.executable, "-c", WARREN, "serve", str(path), "--port", "0", "--http-port", "0"]
    command += ["--log-format", "json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            ports = [int(json.loads(process.stderr.readline())["message"].rpartition(":")[2]) for _ in range(2)]
            # Its later log is not read: it must not fill the pipe.
            drain = multiprocessing.get_context("fork").Process(target=process.stderr.read, daemon=True)
            drain.start()
            yield ports[0], ports[1]
        finally:
            process.terminate()
            process.wait()


def open_session(port: int) -> Wire:
    """A connection with the handles that requests of our own name."""
    wire = Wire(port)

    def ask(key: NativeKey, **values: Any) -> None:
        wire.ask(key, 0, encode_request(key, 0, values))

    ask(NativeKey.OPEN_SESSION, session=SESSION, software="pauses")
    group = {"topic": largest.TAGGED, "settings": [{"name": "tag", "value": '"none"'}]}
    ask(NativeKey.OPEN_GROUP, handle=largest.STREAM, group="filtered", mode="stream", **group)
    ask(NativeKey.OPEN_GROUP, handle=largest.WORK, group="filtered-work", mode="queue", **group)
    streams = {largest.TAGGED: largest.ALL_STREAM, **largest.STREAMS}
    works = {largest.TAGGED: largest.ALL_WORK, **largest.WORKS}
    for topic, stream in streams.items():
        ask(NativeKey.OPEN_GROUP, handle=stream, topic=topic, group="stream", mode="stream")
        ask(NativeKey.OPEN_GROUP, handle=works[topic], topic=topic, group="work", mode="queue")
    ask(NativeKey.BEGIN_TRANSACTION, handle=largest.TRANSACTION, timeout=60.0, prepared_timeout=-1.0)
    ask(NativeKey.OPEN_PRODUCER, handle=largest.PRODUCER, producer="pauses")
    ask(NativeKey.OPEN_QUEUE, handle=largest.QUEUE, queue="queue", maxsize=0)
    return wire


def measured(pipe: Connection, name: str, what: str, size: int, ask: Any) -> Row:
    """Sends the request, and returns the report of the witness."""
    waits_of(pipe)
    begun = perf_counter()
    answer_size = ask()
    seconds = perf_counter() - begun
    sleep(4 * WITNESS_EVERY_S)
    waits = sorted(waits_of(pipe)) or [0.0]
    return Row(name, what, size, answer_size, seconds, waits[-1] * 1000, waits[len(waits) // 2] * 1000)


def kafka_rows(port: int, pipe: Connection, only: str, partitions: int) -> Iterator[Row]:
    for request in largest.requests(partitions):
        if not request.api.name.lower().startswith(only.lower()):
            continue
        wire = open_session(port) if request.api.key >= NativeKey.OPEN_SESSION else Wire(port)
        ask = lambda: wire.ask(request.api.key, request.version, request.body)  # noqa: B023, E731
        yield measured(pipe, f"{request.api.key} {request.api.name}", request.what, len(request.body), ask)
        wire.close()


def restarted_rows(path: Path, only: str, partitions: int) -> Iterator[Row]:
    """The first request that a broker answers after its start, a start for each."""
    topics = largest.wide_topics(partitions)
    for place in range(len(list(cold.kafka_requests(topics)))):
        request = list(cold.kafka_requests(topics))[place]
        if request.api.name.lower().startswith(only.lower()):
            with served(path) as (port, _), witnessed(port) as pipe:
                yield _cold_row(port, pipe, request, "after a restart")
    for route, target in cold.http_requests(largest.WIDE):
        if route.lower().startswith(only.lower()):
            with served(path) as (port, http_port), witnessed(port) as pipe:
                yield _http_row(http_port, pipe, target, f"{route}, after a restart")


def unopened_rows(path: Path, only: str, partitions: int) -> Iterator[Row]:
    """Requests for topics that another process has made a moment ago, a topic for each."""
    count = min(partitions, PARTITIONS_MAX)
    places = range(len(list(cold.kafka_requests({"": 1}))))
    with warren.open(path, durability="os") as store, served(path) as (port, http_port), witnessed(port) as pipe:
        for place in places:
            name = f"cold-{place}"
            request = list(cold.kafka_requests({name: count}))[place]
            if request.api.name.lower().startswith(only.lower()):
                store.topic(name, count)
                yield _cold_row(port, pipe, request, "of a topic that is not open")
        for route, target in cold.http_requests("cold-http"):
            if route.lower().startswith(only.lower()):
                store.topic("cold-http", count)
                yield _http_row(http_port, pipe, target, f"{route}, of a topic that is not open")
                store.delete_topic("cold-http")


def _cold_row(port: int, pipe: Connection, request: largest.Asked, when: str) -> Row:
    wire = Wire(port)
    try:
        ask = lambda: wire.ask(request.api.key, request.version, request.body)  # noqa: E731
        return measured(pipe, f"{request.api.key} {request.api.name}", f"{request.what} {when}", len(request.body), ask)
    finally:
        wire.close()


def _http_row(port: int, pipe: Connection, target: str, name: str) -> Row:
    def ask() -> int | None:
        connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S_MAX)
        try:
            connection.request("GET", target)
            return len(connection.getresponse().read())
        finally:
            connection.close()

    return measured(pipe, name, "", 0, ask)


def http_rows(port: int, pipe: Connection, only: str) -> Iterator[Row]:
    for request in largest.http_requests():
        if not request.route.lower().startswith(only.lower()):
            continue

        def ask(request: largest.HttpAsked = request) -> int | None:
            connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S_MAX)
            try:
                connection.request(request.method, request.path, request.body, {"Content-Type": "application/json"})
                return len(connection.getresponse().read())
            except OSError:
                return None
            finally:
                connection.close()

        size = len(request.body or b"")
        yield measured(pipe, request.route, "body" if size else "", size, ask)


def table_of(rows: list[Row], quiet_ms: float, longest_s: float) -> Table:
    caption = f"with nothing else the witness waits {quiet_ms:.1f} ms at most; the broker's own longest pause: "
    table = Table(title="Longest wait of another client", caption=f"{caption}{longest_s * 1000:.0f} ms")
    for name in ("request", "large by"):
        table.add_column(name)
    for name in ("bytes", "answer", "s", "witness: longest ms", "median ms"):
        table.add_column(name, justify="right")
    for row in sorted(rows, key=lambda row: -row.longest_ms):
        answer = "closed" if row.answer_size is None else f"{row.answer_size:,}"
        style = "red" if row.longest_ms > PAUSE_S_MAX * 1000 else ""
        figures = (f"{row.size:,}", answer, f"{row.seconds:.2f}", f"{row.longest_ms:.1f}", f"{row.typical_ms:.1f}")
        table.add_row(row.name, row.what, *figures, style=style)
    return table


def statistics(port: int) -> Any:
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S_MAX)
    connection.request("GET", "/v1/statistics")
    return json.loads(connection.getresponse().read())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker.pauses", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="only requests whose name starts so: Metadata")
    parser.add_argument("--json", type=Path, default=None, metavar="PATH", help="where every figure goes")
    parser.add_argument("--part", default=ALL, choices=(ALL, LARGEST, COLD), help="which requests: %(default)s")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topics with many: %(default)s")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        prepare(path, arguments.partitions)
        with served(path) as (port, http_port), witnessed(port) as pipe:
            sleep(QUIET_S)
            quiet_ms = max(waits_of(pipe)) * 1000
            rows: list[Row] = []
            if arguments.part != COLD:
                rows += kafka_rows(port, pipe, arguments.only, arguments.partitions)
                rows += http_rows(http_port, pipe, arguments.only)
            longest_s = statistics(http_port)["loop"]["longest_pause_s"]
        if arguments.part != LARGEST:
            rows += restarted_rows(path, arguments.only, arguments.partitions)
            rows += unopened_rows(path, arguments.only, arguments.partitions)
    console.print(table_of(rows, quiet_ms, longest_s))
    if arguments.json is not None:
        document = {"quiet_ms": quiet_ms, "longest_pause_s": longest_s, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=1))
    return int(any(row.longest_ms > PAUSE_S_MAX * 1000 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
