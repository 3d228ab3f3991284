"""What this process may use of the machine: the cores and the memory that its affinity and its cgroups allow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warren.config import SPARK_MEMORY_MAX, SPARK_MEMORY_MIN

CGROUP: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")


def cores(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """How many cores this process may use; a quota of the cgroup counts as so many whole cores, one at least."""
    allowed = len(os.sched_getaffinity(0))
    quotas = [quota for folder in _own_folders("cpu", proc, cgroup) if (quota := _quota(folder)) is not None]
    return max(1, min([allowed, *(int(quota) for quota in quotas)]))


def memory_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """How much memory this process may use: the least of what is built in and what its cgroups allow."""
    built_in = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        limit
        for folder in _own_folders("memory", proc, cgroup)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(folder / name)) is not None
    ]
    return min([built_in, *limits])


def driver_memory(available: int) -> int:
    """How much of `available` bytes Spark's JVM gets: the rest is for Python workers and the cache of pages."""
    return max(SPARK_MEMORY_MIN, min(SPARK_MEMORY_MAX, available // 3))


def _own_folders(controller: str, proc: Path, cgroup: Path) -> Iterator[Path]:
    """The folders of this process's cgroup and of those above it, in version 2 and in version 1.

    In a container the path is often not to be seen, and its root is the container's own cgroup.
    """
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroup / controllers if controllers else cgroup
        folder = root / path.lstrip("/")
        yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(root))


def _quota(folder: Path) -> float | None:
    """How many cores the cgroup at `folder` may use; None without a limit."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    quota_us, period_us = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
