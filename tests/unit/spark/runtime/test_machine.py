"""The share of the machine that a process may use, read from files as the kernel shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warren.spark.runtime.machine import SPARK_MEMORY_MAX, SPARK_MEMORY_MIN, cores, driver_memory, memory_bytes

GIB = 1 << 30


def a_machine(folder: Path, membership: str, **files: str) -> tuple[Path, Path]:
    """A /proc and a /sys/fs/cgroup of this process; the names of `files` are paths with `__` for a slash."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(membership)
    for name, text in files.items():
        path = folder / "cgroup" / name.replace("__", "/").replace("_of_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "proc", folder / "cgroup"


def test_the_least_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    machine = a_machine(
        tmp_path,
        "0::/a/b\n",
        a__b__memory_of_max="max\n",
        a__memory_of_max=f"{3 * GIB}\n",
        memory_of_max=f"{4 * GIB}\n",
    )

    assert memory_bytes(*machine) == min(3 * GIB, memory_bytes(tmp_path, tmp_path))


def test_limits_of_the_first_version_of_cgroups_count(tmp_path: Path) -> None:
    machine = a_machine(
        tmp_path,
        "4:memory:/job\n3:cpu,cpuacct:/\n0::/\n",
        memory__job__memory_of_limit_in_bytes=f"{2 * GIB}\n",
        memory__memory_of_limit_in_bytes="9223372036854771712\n",
    )

    assert memory_bytes(*machine) == min(2 * GIB, memory_bytes(tmp_path, tmp_path))


def test_a_quota_of_the_cpu_counts_as_cores_and_at_least_as_one(tmp_path: Path) -> None:
    half = a_machine(tmp_path / "half", "0::/\n", cpu_of_max="50000 100000\n")
    old = a_machine(
        tmp_path / "old",
        "3:cpu,cpuacct:/\n",
        **{"cpu,cpuacct__cpu_of_cfs_quota_us": "150000", "cpu,cpuacct__cpu_of_cfs_period_us": "100000"},
    )
    free = a_machine(tmp_path / "free", "0::/\n", cpu_of_max="max 100000\n")

    assert cores(*half) == 1
    assert cores(*old) == 1
    assert cores(*free) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("available", "expected"), [(GIB, SPARK_MEMORY_MIN), (9 * GIB, 3 * GIB), (900 * GIB, SPARK_MEMORY_MAX)]
)
def test_spark_gets_a_part_of_the_memory_within_bounds(available: int, expected: int) -> None:
    assert driver_memory(available) == expected
