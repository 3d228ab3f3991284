"""Waiting for a message: how soon a waiting reader is woken, and what waiting costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

from benchmarks import children
from benchmarks.measure import Figure, Row, at_most
from benchmarks.workspace import Contest, Workspace
from warren.storage import Log

PAUSE_S: Final = 0.002
"""Between two messages: long enough for the waiting reader to sleep again."""
PATIENCE_S: Final = 30.0
IDLE_S: Final = 2.0
WITHIN_A_PROCESS: Final = Figure(name="allowed", value=0.001, unit="s")
BETWEEN_PROCESSES: Final = Figure(name="allowed", value=0.005, unit="s")
IDLE_SHARE: Final = Figure(name="allowed", value=0.01, unit="of a core")


def wake(workspace: Workspace) -> list[Row]:
    count = workspace.scale.wakes
    rows = []
    with Log.open(workspace.fresh("waits"), durability="os") as log:
        woken: list[int] = []
        thread = threading.Thread(target=children.note_wakes, args=(log, 0, count, woken.append))
        thread.start()
        sent = _append(log, count)
        thread.join(PATIENCE_S)
        rows.append(_row("wakes.thread", "woken within a process, median", sent, woken, WITHIN_A_PROCESS))
        child = children.start("wake", log.path, str(count), str(count))
        children.wait_until_ready(child)
        sent = _append(log, count)
        output, _ = child.communicate(timeout=PATIENCE_S)
        woken = [int(line) for line in output.split()]
        rows.append(_row("wakes.process", "woken in another process, median", sent, woken, BETWEEN_PROCESSES))
        rows.append(_idle_row(log))
    return rows


def _append(log: Log, count: int) -> list[int]:
    """Appends messages with pauses. Returns when each append began, by the machine's steady clock."""
    sent = []
    for _ in range(count):
        time.sleep(PAUSE_S)
        sent.append(time.monotonic_ns())
        log.append(b"wake up")
    return sent


def _row(name: str, what: str, sent: Sequence[int], woken: Sequence[int], allowed: Figure) -> Row:
    late = sorted((woken_ns - sent_ns) / 1e9 for sent_ns, woken_ns in zip(sent, woken, strict=True))
    facts = {"count": len(late), "p99": late[int(len(late) * 0.99)], "max": late[-1]}
    measured = Figure(name=what, value=median(late), unit="s", samples=late, facts=facts)
    return Row(
        name=f"waits.{name}",
        what=f"{what}; from before the append",
        baseline=allowed,
        measured=measured,
        bar=at_most(1),
    )


def _idle_row(log: Log) -> Row:
    start_s = time.process_time()
    log.wait(log.end, IDLE_S)
    share = Figure(name="waiting", value=(time.process_time() - start_s) / IDLE_S, unit="of a core")
    return Row(name="waits.idle", what="CPU while nothing comes", baseline=IDLE_SHARE, measured=share, bar=at_most(1))


CONTESTS: Final[Sequence[Contest]] = (Contest("waits.wake", wake),)
