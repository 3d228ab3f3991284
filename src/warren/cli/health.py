"""Whether this machine is fit for a store: Python, packages, the disk, and the limits of the process."""

from __future__ import annotations

import fcntl
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from mmap import mmap
from pathlib import Path
from typing import Final

from warren.cli.show import size_text
from warren.clock import SYSTEM_CLOCK
from warren.spark.doctor import Finding, State, check_package
from warren.spark.machine import cores, memory_bytes
from warren.storage.bell import Bell

PYTHON_MIN: Final = (3, 11)
PACKAGES: Final[Mapping[str, str]] = {
    "fastcrc": "0.3.2",
    "numpy": "1.26",
    "pyarrow": "15",
    "rich": "13.7",
    "typer": "0.12",
}
"""From which version on, as pyproject.toml has them."""
BROKER_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "aiokafka": ("0.12", "0.15"),
    "google-re2": ("1.1", ""),
    "h11": ("0.14", ""),
    "kafka-python": ("3.0", "4"),
    "prometheus-client": ("0.20", ""),
}
"""What `warren serve` needs besides: from which version on, and before which, as pyproject.toml has them."""
FREE_BYTES_LOW: Final = 1 << 30
FREE_BYTES_MIN: Final = 64 << 20
MEMORY_LOW: Final = 1 << 30
OPEN_FILES_LOW: Final = 1024
MAPS_LOW: Final = 65_530
SYNCS: Final = 5
SYNC_SIZE: Final = 4096
SYNC_SLOW_S: Final = 0.05
NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs"}
)
FLEETING: Final[Mapping[str, str]] = {
    "tmpfs": "it is memory, and gone when the machine restarts: put the store on a disk",
    "ramfs": "it is memory, and gone when the machine restarts: put the store on a disk",
    "overlay": "it is gone with its container: put the store on a volume",
}


def check_python() -> Finding:
    found = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    is_old = sys.version_info[:2] < PYTHON_MIN
    return Finding(
        check="Python",
        state="failed" if is_old else "ok",
        found=found,
        advice=f"use Python {'.'.join(map(str, PYTHON_MIN))} or newer" if is_old else "",
    )


def check_packages() -> Iterator[Finding]:
    for package, first in PACKAGES.items():
        yield check_package(package, first, "", missing="failed", advice="`pip install warren` brings what is missing")
    for package, (first, end) in BROKER_PACKAGES.items():
        advice = "`warren serve` needs it: `pip install 'warren[broker]'`"
        yield check_package(package, first, end, missing="warning", advice=advice)


def check_disk(directory: str) -> Iterator[Finding]:
    """The disk that `directory` is on, or will be: whether a store can live there, and how fast a sync is."""
    place = nearest(directory)
    kind = filesystem_of(place, Path("/proc/self/mountinfo").read_text() if os.path.exists("/proc") else "")
    yield judged_filesystem(place, kind)
    status = os.statvfs(place)
    yield judged_space(place, status.f_bavail * status.f_frsize)
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".warren-doctor-") as folder:
            took_s = sync_s(os.path.join(folder, "probe"))
    except OSError as error:
        advice = "use a directory that this user may write to, on a disk that can lock, map and preallocate files"
        yield Finding(check="writing", state="failed", found=f"{place}: {error.strerror}", advice=advice)
        return
    yield judged_sync(took_s)


def check_limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = soft != resource.RLIM_INFINITY and soft < OPEN_FILES_LOW
    advice = f"`ulimit -n {hard}`: each partition in use keeps a few files open" if is_low else ""
    yield Finding(check="open files", state="warning" if is_low else "ok", found=f"{soft:,} at once", advice=advice)
    maps = Path("/proc/sys/vm/max_map_count")
    if maps.exists():
        count = int(maps.read_text())
        advice = f"`sysctl vm.max_map_count={MAPS_LOW}`: each block in use is a map" if count < MAPS_LOW else ""
        state: State = "warning" if advice else "ok"
        yield Finding(check="mapped files", state=state, found=f"{count:,} at once", advice=advice)
    memory = memory_bytes()
    advice = "a store runs with little memory, Spark does not" if memory < MEMORY_LOW else ""
    state = "warning" if advice else "ok"
    yield Finding(check="machine", state=state, found=f"{size_text(memory)} of memory, cores: {cores()}", advice=advice)


def check_waking() -> Finding:
    """Whether who waits for a message is woken, or has to look again and again."""
    with mmap(-1, 4096) as view:
        waiter = Bell(view, 0, SYSTEM_CLOCK, writable=True).waiter(0)
        is_woken = waiter is not None
        del waiter
    return Finding(
        check="waking",
        state="ok" if is_woken else "warning",
        found="who waits sleeps until it is woken" if is_woken else "who waits looks every 2 ms",
        advice="" if is_woken else "nothing is lost; on Linux, on x86-64 or ARM, waiting costs less",
    )


def nearest(directory: str) -> str:
    """`directory`, or what there is of the way to it."""
    place = os.path.abspath(directory)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def filesystem_of(place: str, mounts: str) -> str:
    """The kind of file system that `place` is on, from the lines of mountinfo; empty where they do not say."""
    found, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        is_above = point == "/" or place == point or place.startswith(f"{point}/")
        if is_above and len(point) >= len(found):
            found, kind = point, right.split(" ")[0]
    return kind


def judged_filesystem(place: str, kind: str) -> Finding:
    advice = FLEETING.get(kind, "")
    if kind in NETWORK:
        advice = (
            "let only one machine write to a store there: whether locks and maps reach others is the server's choice"
        )
    state: State = "warning" if advice else "ok"
    return Finding(check="disk", state=state, found=f"{place} ({kind or 'unknown'})", advice=advice)


def judged_space(place: str, free: int) -> Finding:
    state: State = "failed" if free < FREE_BYTES_MIN else "warning" if free < FREE_BYTES_LOW else "ok"
    advice = "" if state == "ok" else f"free some space below {place}, or retire messages sooner"
    return Finding(check="space", state=state, found=f"{size_text(free)} free", advice=advice)


def judged_sync(took_s: float) -> Finding:
    advice = "" if took_s <= SYNC_SLOW_S else "put many messages at once, or with durability='interval:50ms'"
    return Finding(check="sync", state="warning" if advice else "ok", found=f"{took_s * 1000:.1f} ms", advice=advice)


def sync_s(path: str, steady_s: Callable[[], float] = SYSTEM_CLOCK.steady_s) -> float:
    """How long a sync takes after a small write: the median of a few. The file is locked, mapped and preallocated."""
    taken = []
    with open(path, "wb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, SYNCS * SYNC_SIZE)
        with mmap(file.fileno(), SYNCS * SYNC_SIZE) as view:
            for number in range(SYNCS):
                view[number * SYNC_SIZE] = 1
                begun = steady_s()
                os.fdatasync(file.fileno())
                taken.append(steady_s() - begun)
    return statistics.median(taken)
