"""The cores and the memory that this process may use, by its affinity and its cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SPARK_MEMORY_MIN: Final = 1 << 30
SPARK_MEMORY_MAX: Final = 8 << 30
"""The least and the most memory of Spark's JVM, if none is configured."""


CGROUP: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")


def cores(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Returns how many cores this process may use. The quota of a cgroup is rounded down, but to at least one core."""
    allowed = len(os.sched_getaffinity(0))
    quotas = [quota for folder in _own_folders("cpu", proc, cgroup) if (quota := _quota(folder)) is not None]
    return max(1, min([allowed, *(int(quota) for quota in quotas)]))


def memory_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Returns how much memory this process may use: that of the machine, or less if its cgroups have a limit."""
    built_in = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        limit
        for folder in _own_folders("memory", proc, cgroup)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(folder / name)) is not None
    ]
    return min([built_in, *limits])


def driver_memory(available: int) -> int:
    """Returns how much of `available` bytes Spark's JVM gets. The rest is for Python workers and the page cache."""
    return max(SPARK_MEMORY_MIN, min(SPARK_MEMORY_MAX, available // 3))


def _own_folders(controller: str, proc: Path, cgroup: Path) -> Iterator[Path]:
    """Yields the folders of this process's cgroup and of those above it, for version 2 and version 1.

    In a container the path often does not exist, and the root is the container's own cgroup.
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
    """Returns how many cores the cgroup at `folder` may use; None if it has no limit."""
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
