"""The conditions of the figures: the machine, how long its disk takes for a sync, and the version of each contender."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.machine import machine_facts, version_of

PACKAGES: Final = ("confluent-kafka", "redis", "hiredis", "nats-py", "uvloop")
SYNCS: Final = 50
SYNCED_SIZE: Final = 4096


def facts(directory: Path) -> dict[str, str]:
    result = {name: text for name, text in machine_facts(directory).items() if not _is_of_others(name)}
    result["fdatasync"] = f"{_sync_s(directory) * 1000:.2f} ms (p50 of {SYNCS})"
    result |= {name: version_of(name) for name in PACKAGES}
    result["librdkafka"] = _librdkafka()
    result["redis-server"] = _version_printed_by("redis-server", r"v=(\S+)")
    result["nats-server"] = _version_printed_by("nats-server", r"\bv(\d\S*)")
    return result


def _is_of_others(name: str) -> bool:
    """Whether it stands for a contender of the other benchmarks."""
    return name in ("sqlite", "persist-queue", "litequeue", "diskcache")


def _librdkafka() -> str:
    try:
        from confluent_kafka import libversion
    except ImportError:
        return ""
    return str(libversion()[0])


def _version_printed_by(program: str, pattern: str) -> str:
    """Returns the version that a program prints; empty if it is not installed."""
    beside = Path(sys.executable).with_name(program)
    path = str(beside) if beside.exists() else shutil.which(program)
    if path is None:
        return ""
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(pattern, output)
    return match[1] if match else ""


def _sync_s(directory: Path) -> float:
    """Returns the median time of a sync of a small write to a file that has its length."""
    samples = []
    with open(directory / "synced", "w+b", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, SYNCS * SYNCED_SIZE)
        os.fsync(file.fileno())
        for _ in range(SYNCS):
            start = perf_counter()
            file.write(b"x" * SYNCED_SIZE)
            os.fdatasync(file.fileno())
            samples.append(perf_counter() - start)
    os.unlink(directory / "synced")
    return median(samples)
