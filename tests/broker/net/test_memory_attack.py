"""A broker under a memory limit of the system, with all attacks on its memory together: it lives, and others are
served.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.memory import beginning, bomb, joined
from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from tests.tidy.source import SOURCE
from warren.broker.services.read_memory import READ_COPIES
from warren.errors import WarrenError
from warren.protocol.api_keys import ApiKey, served
from warren.protocol.headers import Request, request_frame
from warren.protocol.native.calls import wire_positions
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32

MIB = 1 << 20
MEMORY_MAX = 64 * MIB
DATA_MAX = 1000 * MIB
"""The memory that the system grants the process: private memory, with the stacks of its threads, most of which is never
touched.
"""
GROWTH_MAX = 450 * MIB
"""How much the memory of the process may grow: the limit, an unpacked batch, and the memory that the heap keeps."""
REST_MAX = 200 * MIB
"""How much more memory it may have afterwards: what the heap keeps, with a margin."""
PACKED_SIZE = 48 * MIB
"""The size of a message that a Kafka client packed to a few KB."""
ITEM_SIZE = 20 * MIB
SMALL_COUNT = 250
GROWN_COUNT = 120
PATIENCE_S = 120.0
WITNESSED_MIN = 30
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]), int(sys.argv[1])))
del sys.argv[1]
from warren.cli.main import main
main()
"""
SETTINGS = {
    "WARREN_LIMITS_MEMORY_SIZE_MAX": str(MEMORY_MAX),
    "WARREN_LIMITS_FRAME_SIZE_MAX": str(24 * MIB),
    "WARREN_LIMITS_STALLED_S_MAX": "6",
    "WARREN_HTTP_PORT": "0",
}


class Attacked:
    """The broker, in its own process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log
        self.broker = self._address("serving .* on ([0-9.]+):([0-9]+)")
        self.http = self._address("HTTP on ([0-9.]+):([0-9]+)")

    def _address(self, pattern: str) -> tuple[str, int]:
        wait_until(lambda: re.search(pattern, self.log()) is not None)
        match = re.search(pattern, self.log())
        assert match is not None
        return match[1], int(match[2])

    def log(self) -> str:
        return self._log.read_text()

    def memory(self) -> int:
        """Returns the bytes of memory that are not pages of files."""
        _, resident, shared, *_ = map(int, Path(f"/proc/{self.process.pid}/statm").read_text().split())
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")

    def held(self) -> dict[str, int]:
        """Returns the memory that the broker holds for clients, by kind."""
        connection = http.client.HTTPConnection(*self.http, timeout=PATIENCE_S)
        connection.request("GET", "/v1/statistics")
        document = json.loads(connection.getresponse().read())
        connection.close()
        kinds: dict[str, int] = document["memory"]["kinds"]
        return kinds


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    if not sys.platform.startswith("linux"):
        pytest.skip("the limit on private memory, and what a process uses of it, are Linux's")
    command = [sys.executable, "-c", PROGRAM, str(DATA_MAX), "serve", str(tmp_path / "data"), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)} | SETTINGS
    log = tmp_path / "log"
    with log.open("wb") as written, subprocess.Popen(command, env=environment, stderr=written, cwd=tmp_path) as process:
        try:
            yield Attacked(process, log)
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "this never came about"
        time.sleep(0.05)


def native_frame(key: int, values: dict[str, Any]) -> bytes:
    body = memoryview(encode_request(key, 0, values))
    frame = request_frame(Request(key, 0, 1, "test", body), is_flexible=served(key, 0).is_flexible(0))
    return INT32.pack(len(frame)) + frame


# --- The attacks ---


def at_once(count: int, attack: Callable[[], object]) -> None:
    def run() -> None:
        with suppress(WarrenError, OSError, http.client.HTTPException):
            attack()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def over_http(attacked: Attacked, method: str, path: str, body: bytes | None = None) -> None:
    connection = http.client.HTTPConnection(*attacked.http, timeout=PATIENCE_S)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()


def partial_requests(attacked: Attacked, resources: ExitStack) -> None:
    for _ in range(15):
        resources.enter_context(beginning(attacked.broker, 22 * MIB, 21 * MIB))


def remembered_reads(attacked: Attacked, resources: ExitStack) -> None:
    store = resources.enter_context(warren.connect(":".join(map(str, attacked.broker))))
    for number in range(8):
        group = resources.enter_context(store.topic("large").group(f"group-{number}"))
        for _ in range(16):
            group.read(2)


def unread_answers(attacked: Attacked, resources: ExitStack) -> None:
    values = {"topic": "large", "positions": wire_positions({0: 40}), "limit": 256, "is_backwards": True}
    for _ in range(8):
        client = resources.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(attacked.broker)
        client.sendall(native_frame(NativeKey.READ, values) * 4)


def unread_large_messages(attacked: Attacked, resources: ExitStack) -> None:
    values = {"topic": "packed", "positions": wire_positions({0: 0}), "limit": 256}
    for _ in range(8):
        client = resources.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(attacked.broker)
        client.sendall(native_frame(NativeKey.READ, values) * 4)


def reads_of_large_messages(attacked: Attacked, resources: ExitStack) -> None:
    def read() -> None:
        with warren.connect(":".join(map(str, attacked.broker))) as store:
            store.topic("packed").partition(0).read(0)

    at_once(8, read)


def takes_over_http(attacked: Attacked, resources: ExitStack) -> None:
    at_once(8, lambda: over_http(attacked, "POST", "/v1/topics/packed/groups/http/take", b"{}"))


def dead_letters_over_http(attacked: Attacked, resources: ExitStack) -> None:
    at_once(8, lambda: over_http(attacked, "GET", "/v1/topics/failed/groups/workers/dead"))


def items_of_a_queue(attacked: Attacked, resources: ExitStack) -> None:
    def get() -> None:
        with warren.connect(":".join(map(str, attacked.broker))) as store:
            store.queue("items", codec="bytes").get_nowait()

    at_once(8, get)


def takes_that_grow(attacked: Attacked, resources: ExitStack) -> None:
    """Messages of a few bytes, and then some of nearly 2 MiB, which a worker takes by the size of those before."""
    store = resources.enter_context(warren.connect(":".join(map(str, attacked.broker))))
    for number in range(4):
        group = resources.enter_context(store.topic("growing").group(f"workers-{number}", mode="queue"))
        for _ in range(12):
            group.take(SMALL_COUNT)


def open_transactions(attacked: Attacked, resources: ExitStack) -> None:
    store = resources.enter_context(warren.connect(":".join(map(str, attacked.broker))))
    for _ in range(80):
        store.transaction().put("sink", bytes(MIB))


def large_members(attacked: Attacked, resources: ExitStack) -> None:
    with Caller(attacked.broker) as caller:
        for number in range(150):
            joined(caller, f"kafka-{number}", 250 << 10)


def bombs(attacked: Attacked, resources: ExitStack) -> None:
    with Caller(attacked.broker) as caller:
        for compression in (4, 1, 4, 1):
            caller.produce("sink", bomb(60 * MIB, compression))


def much_json(attacked: Attacked, resources: ExitStack) -> None:
    over_http(attacked, "POST", "/v1/topics/sink/messages", b"[" + b"[]," * (6 * MIB // 3) + b"[]]")


def empty_partitions(attacked: Attacked, resources: ExitStack) -> None:
    """A Produce of 20 MB that has only partitions without records."""
    head = encode_request(
        ApiKey.PRODUCE, 3, {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": []}
    )
    count = 20 * MIB // 8
    body = head[:-4] + INT32.pack(1) + b"\0\4sink" + INT32.pack(count) + b"\0\0\0\0\xff\xff\xff\xff" * count
    frame = request_frame(Request(ApiKey.PRODUCE, 3, 1, "test", memoryview(body)), is_flexible=False)
    client = resources.enter_context(socket.create_connection(attacked.broker, PATIENCE_S))
    client.sendall(INT32.pack(len(frame)) + frame)
    client.recv(100)


ATTACKS = (
    partial_requests,
    remembered_reads,
    unread_answers,
    unread_large_messages,
    reads_of_large_messages,
    takes_over_http,
    dead_letters_over_http,
    items_of_a_queue,
    takes_that_grow,
    open_transactions,
    large_members,
    bombs,
    much_json,
    empty_partitions,
)


@contextmanager
def sampled(attacked: Attacked) -> Iterator[list[int]]:
    """Samples the memory of the broker repeatedly."""
    sizes, is_over = [attacked.memory()], threading.Event()

    def sample() -> None:
        while not is_over.wait(0.02):
            with suppress(OSError):
                sizes.append(attacked.memory())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield sizes
    finally:
        is_over.set()
        thread.join()


def run_attack(attack: Callable[[Attacked, ExitStack], None], attacked: Attacked, resources: ExitStack) -> None:
    # An attack must expect to be refused or cut off.
    with suppress(WarrenError, OSError, AssertionError, http.client.HTTPException):
        attack(attacked, resources)


def witness(attacked: Attacked) -> None:
    """One put and one read of an ordinary client."""
    with Caller(attacked.broker) as caller:
        error, number = caller.produce("witness", batch_of([(None, b"seen", [])]))
        part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
        fields = values | {"topics": [{"topic": "witness", "partitions": [part]}]}
        partition = caller.call(ApiKey.FETCH, 11, fields).responses[0].partitions[0]
    assert (error, partition.error_code) == (0, 0)
    assert b"seen" in bytes(partition.records)


def test_with_all_attacks_on_its_memory_at_the_same_time_the_broker_still_serves_others(attacked: Attacked) -> None:
    before = attacked.memory()
    with warren.connect(":".join(map(str, attacked.broker))) as store:
        large = store.topic("large")
        for _ in range(48):
            large.put(bytes(MIB))
        store.topic("sink")
        store.topic("witness")
        store.topic("packed")
        items = store.queue("items", codec="bytes", block_size=32 * MIB)
        for _ in range(8):
            items.put(bytes(ITEM_SIZE))
        growing = store.topic("growing")
        growing.put_many([b"small"] * SMALL_COUNT)
        for _ in range(GROWN_COUNT):
            growing.put(bytes(2 * MIB - 100))
        failed = store.topic("failed", block_size=32 * MIB)
        with failed.group("workers", mode="queue") as workers:
            for _ in range(2):
                failed.put(bytes(ITEM_SIZE))
                message = workers.take()
                assert message is not None
                workers.reject(message)
    with Caller(attacked.broker) as caller:
        assert caller.produce("packed", batch_of([(None, bytes(PACKED_SIZE), [])], compression=4))[0] == 0
    witness(attacked)

    with sampled(attacked) as sizes, ExitStack() as resources:
        threads = [threading.Thread(target=run_attack, args=(attack, attacked, resources)) for attack in ATTACKS]
        for thread in threads:
            thread.start()
        served_count = 0
        deadline_s = time.monotonic() + PATIENCE_S
        while served_count < WITNESSED_MIN or any(thread.is_alive() for thread in threads):
            witness(attacked)
            served_count += 1
            assert time.monotonic() < deadline_s, [thread.name for thread in threads if thread.is_alive()]
        memory_held = sum(attacked.held().values())

    assert attacked.process.poll() is None
    # One read that needs more than the limit is let in alone, and is counted with its copies.
    assert memory_held < MEMORY_MAX + READ_COPIES * PACKED_SIZE
    assert max(sizes) - before < GROWTH_MAX, (before >> 20, max(sizes) >> 20)
    assert "MemoryError" not in attacked.log(), attacked.log()
    # The metadata of group members lasts as long as their sessions, on purpose.
    wait_until(lambda: sum(size for kind, size in attacked.held().items() if kind != "members") < MIB)
    wait_until(lambda: attacked.memory() - before < REST_MAX)
    witness(attacked)
