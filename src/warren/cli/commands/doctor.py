"""`warren doctor`: checks Python, packages, Java, Spark, the disk and the limits of this machine, and gives advice."""

from __future__ import annotations

import fcntl
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption
from warren.cli.output.tables import size_text, table, write_json
from warren.cli.running.errors import EXIT_FAILED
from warren.clock import SYSTEM_CLOCK
from warren.errors import WarrenError
from warren.registry.class_path import class_path
from warren.spark.runtime.doctor import CheckState, Finding, check_job, check_package, check_spark
from warren.spark.runtime.machine import cores, memory_bytes
from warren.storage.disk.notify import Bell

STYLES: Final[Mapping[str, str]] = {"ok": "green", "warning": "yellow", "failed": "red"}
JOB_CONF: Final[Mapping[str, str]] = {"spark.driver.memory": "1g"}
PYTHON_MIN: Final = (3, 11)
PACKAGES: Final[Mapping[str, str]] = {
    "fastcrc": "0.3.2",
    "numpy": "1.26",
    "pyarrow": "15",
    "rich": "13.7",
    "typer": "0.12",
}
"""The oldest versions, as in pyproject.toml."""
BROKER_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "aiokafka": ("0.12", "0.15"),
    "google-re2": ("1.1", ""),
    "h11": ("0.14", ""),
    "kafka-python": ("3.0", "4"),
    "prometheus-client": ("0.20", ""),
}
"""The packages that `warren serve` also needs: the oldest version, and the first that is too new,
as in pyproject.toml.
"""
KAZOO: Final = ("2.10", "3")
"""The same for the ZooKeeper client, which clusters need."""
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
    "tmpfs": "its files are in memory, which a restart clears: put the store on a disk",
    "ramfs": "its files are in memory, which a restart clears: put the store on a disk",
    "overlay": "its files are deleted with the container: put the store on a volume",
}


def doctor(
    is_spark_started: Annotated[bool, typer.Option("--spark", help="Also start Spark and run a job on it.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="MASTER", help="The Spark master; by default Spark runs on this machine.")
    ] = None,
    is_java_home_asked: Annotated[
        bool, typer.Option("--java-home", help="Print only a JAVA_HOME that Spark's own programs can use.")
    ] = False,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Check Python, Java, Spark, the disk and the limits, and give advice."""
    if is_java_home_asked:
        from warren.spark import use_java

        typer.echo(use_java())
        return
    findings = list(_findings(store, is_spark_started=is_spark_started, master=master))
    if is_json:
        write_json([finding.to_json() for finding in findings])
    else:
        Console(highlight=False).print(findings_table(findings))
    if any(finding.state == "failed" for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def findings_table(findings: Sequence[Finding]) -> Table:
    """Returns a table with one finding in each row and its advice below it."""
    rows = table("Doctor")
    rows.add_column("check", no_wrap=True)
    rows.add_column("state", no_wrap=True)
    rows.add_column("found", overflow="fold")
    for finding in findings:
        cell = Text(finding.detail)
        if finding.advice:
            cell.append(f"\n{finding.advice}", style="dim")
        rows.add_row(Text(finding.check), Text(finding.state, style=STYLES[finding.state]), cell)
    return rows


def _findings(store: str, *, is_spark_started: bool, master: str | None) -> Iterator[Finding]:
    yield check_python()
    yield from check_packages()
    yield from check_disk(store)
    yield from check_limits()
    yield check_waking()
    yield from check_cluster()
    spark = list(check_spark(os.environ, is_needed=is_spark_started))
    yield from spark
    if is_spark_started and all(finding.state != "failed" for finding in spark):
        yield check_job(master, JOB_CONF)


def check_python() -> Finding:
    version = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    is_old = sys.version_info[:2] < PYTHON_MIN
    return Finding(
        check="Python",
        state="failed" if is_old else "ok",
        detail=version,
        advice=f"use Python {'.'.join(map(str, PYTHON_MIN))} or newer" if is_old else "",
    )


def check_packages() -> Iterator[Finding]:
    for package, first in PACKAGES.items():
        yield check_package(package, first, "", missing="failed", advice="`pip install warren` installs it")
    for package, (first, end) in BROKER_PACKAGES.items():
        advice = "`warren serve` needs it: `pip install 'warren[broker]'`"
        yield check_package(package, first, end, missing="warning", advice=advice)


def check_cluster() -> Iterator[Finding]:
    """Checks the client of ZooKeeper, and that PySpark has all jars of its server. Starts nothing."""
    advice = "clusters need it: `pip install 'warren[cluster]'`"
    yield check_package("kazoo", *KAZOO, missing="warning", advice=advice)
    try:
        jars = class_path(is_tls=True)
    except WarrenError as error:
        yield Finding(check="ZooKeeper", state="warning", detail="no server can run on this machine", advice=str(error))
    else:
        detail = f"{os.path.basename(jars[0])} and {len(jars) - 1} other jars of PySpark"
        yield Finding(check="ZooKeeper", state="ok", detail=detail)


def check_disk(directory: str) -> Iterator[Finding]:
    """Checks the disk of `directory`, which need not exist: its file system, free space, and the time of a sync."""
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
        yield Finding(check="writing", state="failed", detail=f"{place}: {error.strerror}", advice=advice)
        return
    yield judged_sync(took_s)


def check_limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = soft != resource.RLIM_INFINITY and soft < OPEN_FILES_LOW
    advice = f"`ulimit -n {hard}`: each partition in use keeps a few files open" if is_low else ""
    yield Finding(
        check="open files", state="warning" if is_low else "ok", detail=f"{soft:,} at the same time", advice=advice
    )
    maps = Path("/proc/sys/vm/max_map_count")
    if maps.exists():
        count = int(maps.read_text())
        advice = f"`sysctl vm.max_map_count={MAPS_LOW}`: each block in use is a map" if count < MAPS_LOW else ""
        state: CheckState = "warning" if advice else "ok"
        yield Finding(check="mapped files", state=state, detail=f"{count:,} at the same time", advice=advice)
    memory = memory_bytes()
    advice = "a store runs with little memory, Spark does not" if memory < MEMORY_LOW else ""
    state = "warning" if advice else "ok"
    yield Finding(
        check="machine", state=state, detail=f"{size_text(memory)} of memory, cores: {cores()}", advice=advice
    )


def check_waking() -> Finding:
    """Checks whether a waiting process can sleep until it is woken, or has to poll."""
    with mmap(-1, 4096) as view:
        waiter = Bell(view, 0, SYSTEM_CLOCK, writable=True).waiter(0)
        is_woken = waiter is not None
        del waiter
    return Finding(
        check="waking",
        state="ok" if is_woken else "warning",
        detail="a waiting process sleeps until it is woken" if is_woken else "a waiting process polls every 2 ms",
        advice="" if is_woken else "this loses nothing; Linux on x86-64 or ARM waits without polling",
    )


def nearest(directory: str) -> str:
    """Returns `directory`, or its nearest parent that exists."""
    place = os.path.abspath(directory)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def filesystem_of(place: str, mounts: str) -> str:
    """Returns the file system of `place` from the lines of mountinfo, or an empty text if they do not name it."""
    mount, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        is_above = point == "/" or place == point or place.startswith(f"{point}/")
        if is_above and len(point) >= len(mount):
            mount, kind = point, right.split(" ")[0]
    return kind


def judged_filesystem(place: str, kind: str) -> Finding:
    advice = FLEETING.get(kind, "")
    if kind in NETWORK:
        advice = "let only one machine write to such a store: locks and maps may not work between machines"
    state: CheckState = "warning" if advice else "ok"
    return Finding(check="disk", state=state, detail=f"{place} ({kind or 'unknown'})", advice=advice)


def judged_space(place: str, free: int) -> Finding:
    state: CheckState = "failed" if free < FREE_BYTES_MIN else "warning" if free < FREE_BYTES_LOW else "ok"
    advice = "" if state == "ok" else f"free some space below {place}, or retire messages sooner"
    return Finding(check="space", state=state, detail=f"{size_text(free)} free", advice=advice)


def judged_sync(took_s: float) -> Finding:
    advice = "" if took_s <= SYNC_SLOW_S else "put many messages together, or with durability='interval:50ms'"
    return Finding(check="sync", state="warning" if advice else "ok", detail=f"{took_s * 1000:.1f} ms", advice=advice)


def sync_s(path: str, steady_s: Callable[[], float] = SYSTEM_CLOCK.steady_s) -> float:
    """Returns the time of a sync after a small write, the median of a few. Locks, maps and preallocates the file."""
    times_s = []
    with open(path, "wb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, SYNCS * SYNC_SIZE)
        with mmap(file.fileno(), SYNCS * SYNC_SIZE) as view:
            for number in range(SYNCS):
                view[number * SYNC_SIZE] = 1
                begun = steady_s()
                os.fdatasync(file.fileno())
                times_s.append(steady_s() - begun)
    return sorted(times_s)[SYNCS // 2]
