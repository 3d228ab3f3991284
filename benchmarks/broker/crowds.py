"""Many connections: two hundred that put one message at a time, and a thousand that wait for some."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep
from typing import Final

import warren
from benchmarks.broker import load
from benchmarks.broker.frames import fetch_frame, produce_frame
from benchmarks.broker.scale import scale_of
from benchmarks.broker.servers import Server, warren_broker
from benchmarks.measure import Figure, Row, at_least, at_most
from benchmarks.workspace import Contest, Workspace

WAIT_MS: Final = 10_000
WAIT_MS_DEFAULT: Final = 500
SETTLE_S: Final = 1.0
CPU_ALLOWED: Final = Figure(name="allowed", value=0.03, unit="cores")
MEMORY_ALLOWED: Final = Figure(name="allowed", value=300e6, unit="B")


@contextmanager
def started(task: str, port: int, count: int, frame: bytes, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts `load` in its own process, killed at the end if it still runs."""
    command = [sys.executable, load.__file__, task, str(port), str(count), *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(frame)
            process.stdin.close()
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def put_together(port: int, count: int, frame: bytes, seconds: float) -> dict[str, float]:
    with started("put", port, count, frame, str(seconds)) as process:
        assert process.stdout is not None
        results: dict[str, float] = json.loads(process.stdout.read() or "{}")
    assert results, "the load ended early"
    return results


def connections(workspace: Workspace) -> list[Row]:
    scale = scale_of(workspace)
    counts = (1, scale.connections)
    results: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    with warren_broker(workspace) as broker, warren.connect(broker.address) as store:
        store.topic("crowded", durability="commit")
        frame = produce_frame("crowded", workspace.bodies[0])
        for _ in range(scale.rounds_synced):
            for count in counts:
                results[count].append(put_together(broker.port, count, frame, scale.put_s))
    one, many = (_rate(f"{count} connections" if count > 1 else "one connection", results[count]) for count in counts)
    what = f"{scale.connections} connections putting one at a time, commit"
    return [Row(name="broker.connections", what=what, baseline=one, measured=many, bar=at_least(8))]


def _rate(name: str, results: Sequence[dict[str, float]]) -> Figure:
    rates = [each["answers"] / each["seconds"] for each in results]
    busy = median(each["cpu"] for each in results)
    return Figure(name=name, value=median(rates), unit="/s", samples=rates, facts={"cores of the load": busy})


def idle(workspace: Workspace) -> list[Row]:
    scale = scale_of(workspace)
    with warren_broker(workspace) as broker, warren.connect(broker.address) as store:
        store.topic("silent", durability="os")
        long_share, memory = _waited(workspace, broker, WAIT_MS)
        short_share, _ = _waited(workspace, broker, WAIT_MS_DEFAULT)
    what = f"{scale.idle:,} idle consumers, each fetch waits {{}} s"
    return [
        Row(
            name="broker.idle.cpu",
            what="broker CPU: " + what.format(WAIT_MS / 1000),
            baseline=CPU_ALLOWED,
            measured=Figure(name="broker", value=long_share, unit="cores"),
            bar=at_most(1),
        ),
        Row(
            name="broker.idle.memory",
            what="broker memory: " + what.format(WAIT_MS / 1000),
            baseline=MEMORY_ALLOWED,
            measured=Figure(name="broker", value=memory, unit="B"),
            bar=at_most(1),
        ),
        Row(
            name="broker.idle.often",
            what="broker CPU: " + what.format(WAIT_MS_DEFAULT / 1000),
            baseline=CPU_ALLOWED,
            measured=Figure(name="broker", value=short_share, unit="cores"),
        ),
    ]


def _waited(workspace: Workspace, broker: Server, wait_ms: int) -> tuple[float, int]:
    """Returns how busy the broker was with waiting clients, in cores, and its memory."""
    scale = scale_of(workspace)
    workspace.step(f"watching for {scale.idle_s:g} s")
    with started("wait", broker.port, scale.idle, fetch_frame("silent", 0, wait_ms)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode().strip() == load.READY
        sleep(SETTLE_S)
        cpu_s, start = broker.cpu_s(), perf_counter()
        sleep(scale.idle_s)
        share = (broker.cpu_s() - cpu_s) / (perf_counter() - start)
        return share, broker.resident()


CONTESTS: Final[Sequence[Contest]] = (
    Contest("broker.connections", connections),
    Contest("broker.idle", idle),
)
