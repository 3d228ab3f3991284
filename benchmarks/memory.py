"""Private memory of a process that reads a log of 10 GB from start to end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from benchmarks import children
from benchmarks.measure import Figure, NotMeasured, Row, at_most
from benchmarks.space import used_bytes
from benchmarks.workspace import BATCH, BODY_SIZE, Contest, Workspace, append_batches

ALLOWED: Final = Figure(name="allowed", value=200e6, unit="B")
FREE_SHARE: Final = 1.2


def reading(workspace: Workspace) -> list[Row]:
    size = workspace.scale.memory_bytes
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise NotMeasured("there is no /proc/PID/smaps_rollup to watch")
    if shutil.disk_usage(workspace.directory).free < FREE_SHARE * size:
        raise NotMeasured(f"a log of {size / 1e9:g} GB does not fit the disk")
    workspace.step(f"making a log of {size / 1e9:g} GB")
    path = workspace.fresh("memory")
    append_batches(path, workspace.bodies, size // (BATCH * BODY_SIZE) * BATCH)
    stored = used_bytes(path)
    rows = []
    for task in ("read", "scan"):
        workspace.step(f"watching {task}")
        peak = children.watch(children.start(task, str(path)))
        measured = Figure(name=task, value=peak["private"], unit="B", facts={"log": stored, **peak})
        rows.append(
            Row(
                name=f"memory.reading.{task}",
                what=f"private memory, {task} of {stored / 1e9:.3g} GB",
                baseline=ALLOWED,
                measured=measured,
                bar=at_most(1),
            )
        )
    shutil.rmtree(path)
    return rows


CONTESTS: Final[Sequence[Contest]] = (Contest("memory.reading", reading),)
