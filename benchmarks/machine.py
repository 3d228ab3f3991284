"""The conditions of the figures of a run: processor, memory, system, file system, Python and the libraries."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

PACKAGES: Final = ("warren", "numpy", "pyarrow", "fastcrc", "persist-queue", "litequeue", "diskcache")


def machine_facts(directory: Path) -> dict[str, str]:
    """Returns the facts, for people and for comparing runs. `directory` is where the data of the run is."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _first_match("/proc/cpuinfo", r"model name\s*: (.*)") or platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "load": f"{os.getloadavg()[0]:.1f}",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(directory),
        "disk": _disk(directory),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        **{name: version for name in PACKAGES if (version := version_of(name))},
    }


def _first_match(path: str, pattern: str) -> str:
    """Returns an empty text if the file or the line does not exist."""
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return ""
    return match[1].strip() if match else ""


def _file_system(directory: Path) -> str:
    """Returns the kind of file system of `directory`; empty if the system does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    above = {str(directory.resolve()), *map(str, directory.resolve().parents)}
    fitting = [mount for mount in mounts if mount[1] in above]
    return max(fitting, key=lambda mount: len(mount[1]))[2]


def _disk(directory: Path) -> str:
    """Returns the kind of disk of `directory`; empty if the system does not say."""
    device = os.stat(directory).st_dev
    try:
        place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
        queue = next(path for path in (place / "queue", place.parent / "queue") if path.is_dir())
        is_rotating = (queue / "rotational").read_text().strip() == "1"
    except (OSError, StopIteration):
        return ""
    if "virtio" in str(place):
        # The machine cannot see which disk is below it.
        return "virtual"
    return "rotating" if is_rotating else "solid state"


def version_of(package: str) -> str:
    """Returns the installed version; empty if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
