"""A malicious client next to the long run, and a witness of how long the broker keeps others waiting."""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.broker import largest
from tests.fuzz.attacks import ANSWER_S_MAX, CLOSED, UNREADABLE, Attacker, Login, Wire
from tests.fuzz.valid import GROUPS, TOPICS, framed
from tests.soak.network.logins import MALLORY, SOAK
from tests.support.message_values import encode_request
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.primitives import INT32

HOSTILE_ADDRESS: Final = "127.0.0.2"
"""The source address of the attacks, so that limits for an address do not affect others."""
MANY: Final = 10_000
PARTIAL_FRAME: Final = 90 << 20
PARTIAL_SENT: Final = 8 << 20
PARTIAL_COUNT: Final = 8
STRANGERS: Final = 200
HELD_S: Final = 3.0
PERIOD_S: Final = 0.01
"""How often the witness sends a request."""
SAMPLE: Final = struct.Struct("<qq")
"""The time of a request of the witness, on the steady clock, and how long it waited, both in nanoseconds."""
WAIT_GROWTH_S_MAX: Final = 0.1
SAMPLES_MIN: Final = 200


class Hostile:
    """Attacks as a user with few rights and as a stranger, repeatedly, in its own process while it `is_on`."""

    def __init__(self, port: int, http_port: int, seed: int) -> None:
        context = multiprocessing.get_context("forkserver")
        self._is_on, self._is_over = context.Event(), context.Event()
        arguments = (port, http_port, seed, self._is_on, self._is_over)
        self._process = context.Process(target=attack, args=arguments, daemon=True)
        self._process.start()

    def turn(self, *, is_on: bool) -> None:
        """Begins to attack, or pauses after the running attack."""
        if is_on:
            self._is_on.set()
        else:
            self._is_on.clear()

    def close(self) -> None:
        self._is_over.set()
        self._is_on.set()
        self._process.join(ANSWER_S_MAX * 3)
        self._process.kill()


def attack(port: int, http_port: int, seed: int, is_on: Event, is_over: Event) -> None:
    """Runs one attack after the other, in the process of the attacker, until the end."""
    draw = random.Random(seed)
    fuzzers = [Attacker(port, draw, login, source=HOSTILE_ADDRESS) for login in (MALLORY, None)]
    heavy = Heavy(port, http_port, draw)
    while not is_over.is_set():
        is_on.wait()
        with suppress(*CLOSED, *UNREADABLE, OSError):
            draw.choice([draw.choice(fuzzers).step, heavy.step])()
    os._exit(0)


class Heavy:
    """Requests of the largest size, and connections that take places and memory."""

    def __init__(self, port: int, http_port: int, draw: random.Random) -> None:
        self._port, self._http_port, self._draw = port, http_port, draw
        self._largest = largest.requests(MANY)
        self._kinds: Sequence[Callable[[], None]] = (
            self.large_requests,
            self.largest_request,
            self.largest_request,
            self.partial_frames,
            self.strangers,
            self.half_requests_over_http,
            self.wrong_passwords,
        )

    def step(self) -> None:
        self._draw.choice(self._kinds)()

    def _wire(self, login: Login | None = MALLORY) -> Wire:
        return Wire(self._port, login, source=HOSTILE_ADDRESS)

    def large_requests(self) -> None:
        """Many names, keys and partitions in one request, of several kinds; some answers are never read."""
        wire = self._wire()
        key, version, values = self._draw.choice(list(large_values()))
        if self._draw.random() < 0.3:
            wire.frame(framed(key, version, encode_request(key, version, values)))
            time.sleep(self._draw.random())
        else:
            wire.ask(APIS[key], version, encode_request(key, version, values))
        wire.close()

    def largest_request(self) -> None:
        """The largest request of the next API key. Mallory has no right to most of its names."""
        request = next(self._largest, None)
        if request is None:
            self._largest = largest.requests(MANY)
            return
        wire = self._wire()
        wire.ask(request.api, request.version, request.body)
        wire.close()

    def partial_frames(self) -> None:
        """Large frames that are begun and not completed."""
        wires = [self._wire() for _ in range(PARTIAL_COUNT)]
        for wire in wires:
            wire.send_for(INT32.pack(PARTIAL_FRAME) + bytes(PARTIAL_SENT), HELD_S / PARTIAL_COUNT)
        time.sleep(HELD_S)
        for wire in wires:
            wire.close()

    def strangers(self) -> None:
        """Connections that send nothing."""
        wires = [self._wire(None) for _ in range(STRANGERS)]
        time.sleep(HELD_S)
        for wire in wires:
            wire.close()

    def half_requests_over_http(self) -> None:
        wires = [Wire(self._http_port, source=HOSTILE_ADDRESS) for _ in range(STRANGERS)]
        for wire in wires:
            wire.send(b"GET /healthz HTTP/1.1\r\nX: ")
        time.sleep(HELD_S)
        for wire in wires:
            wire.close()

    def wrong_passwords(self) -> None:
        for _ in range(5):
            self._wire(Login(SOAK.user, f"{self._draw.random()}")).close()


def large_values() -> Iterable[tuple[ApiKey, int, dict[str, Any]]]:
    """Requests with as many entries as are accepted, most of them for topics that mallory may see."""
    names = [f"{TOPICS[0]}-{number}" for number in range(MANY)]
    parts = range(MANY)
    yield ApiKey.METADATA, 9, {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
    yield ApiKey.METADATA, 9, {"topics": [{"name": TOPICS[0]}] * MANY, "allow_auto_topic_creation": False}
    yield ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": names}
    yield ApiKey.DESCRIBE_GROUPS, 5, {"groups": [f"{GROUPS[0]}-{number}" for number in parts]}
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in names]
    yield ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources}
    listed = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": -1} for each in parts]
    yield (
        ApiKey.LIST_OFFSETS,
        6,
        {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPICS[0], "partitions": listed}]},
    )
    put = [{"index": each, "records": None} for each in parts]
    yield (
        ApiKey.PRODUCE,
        9,
        {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": TOPICS[0], "partition_data": put}]},
    )
    fetched = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for each in parts]
    yield (
        ApiKey.FETCH,
        11,
        {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "topics": [{"topic": TOPICS[0], "partitions": fetched}],
        },
    )


# --- The witness ---


class Waits(NamedTuple):
    """How long the witness waited for its answers, in seconds."""

    answers: int
    middle_s: float
    p99_s: float
    most_s: float


class Witness:
    """Requests the broker's versions every PERIOD_S in its own process, and records how long that took."""

    def __init__(self, port: int, path: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        self._is_over, self._path = context.Event(), path
        self._process = context.Process(target=witness, args=(port, str(path), self._is_over), daemon=True)
        self._process.start()

    def close(self) -> None:
        self._is_over.set()
        self._process.join(ANSWER_S_MAX * 2)
        self._process.kill()

    def waits(self, windows: Iterable[tuple[int, int]]) -> Waits | None:
        """Returns the waits that began within the windows of the steady clock; None if there were none."""
        data = self._path.read_bytes()
        whole = data[: len(data) // SAMPLE.size * SAMPLE.size]
        spans = list(windows)
        waits_ns = sorted(
            wait_ns
            for begun_ns, wait_ns in SAMPLE.iter_unpack(whole)
            if any(start <= begun_ns < end for start, end in spans)
        )
        if not waits_ns:
            return None
        p99 = waits_ns[min(len(waits_ns) - 1, len(waits_ns) * 99 // 100)]
        return Waits(len(waits_ns), statistics.median(waits_ns) / 1e9, p99 / 1e9, waits_ns[-1] / 1e9)


def witness(port: int, path: str, is_over: Event) -> None:
    """Runs in the process of the witness. A connection that a killed broker ends does not count as a wait."""
    api = APIS[ApiKey.API_VERSIONS]
    body = encode_request(ApiKey.API_VERSIONS, 0, {})
    with open(path, "ab", buffering=0) as file:
        while not is_over.is_set():
            with suppress(*CLOSED, OSError):
                wire = Wire(port, SOAK)
                while not is_over.wait(PERIOD_S):
                    begun_ns = time.monotonic_ns()
                    if wire.ask(api, 0, body) is None:
                        break
                    file.write(SAMPLE.pack(begun_ns, time.monotonic_ns() - begun_ns))
                wire.close()
            is_over.wait(PERIOD_S * 10)
    os._exit(0)


def judged_waits(calm: Waits | None, attacked: Waits | None) -> list[str]:
    """Returns a fault if the 99th percentile of the waits grows by more than WAIT_GROWTH_S_MAX under attack."""
    if calm is None or attacked is None or min(calm.answers, attacked.answers) < SAMPLES_MIN:
        return []
    if attacked.p99_s - calm.p99_s <= WAIT_GROWTH_S_MAX:
        return []
    return [f"p99 of the witness: {calm.p99_s * 1e3:.1f} ms, and {attacked.p99_s * 1e3:.1f} ms under attack"]
