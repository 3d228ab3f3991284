"""A short run of `make soak ARGS=--cluster`: faults of all kinds, clients of two kinds, and every promise checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.broker.cluster.processes import PATIENCE_S
from tests.soak.__main__ import ENDED_BY_SIGTERM
from tests.soak.cluster.machine import SOUND, Machine, MachineState
from tests.soak.cluster.namespaces import NAMES, PREFIX, reason_against
from tests.soak.cluster.shard import NAMESPACES, PROXIES
from tests.tidy.source import ROOT, SOURCE

TIMEOUT_S = 400.0
STEP_S = 3600.0
PROGRAM = """
import os, sys, time
from warren.clock import SYSTEM_CLOCK
from warren.errors import StorageFull
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, replace_file

path = sys.argv[1]
replace_file(SYSTEM_FILE_SYSTEM, path, b"before")
file = SYSTEM_FILE_SYSTEM.open(path, writable=True)
for _ in sys.stdin:
    begun = time.monotonic()
    file.sync()
    sync_s = time.monotonic() - begun
    outcomes = [SYSTEM_CLOCK.now_ns() / 1e9, sync_s]
    for change in (lambda: file.write(0, b"b"), lambda: file.write(3, b"longer"), lambda: file.preallocate(4096)):
        try:
            change()
            outcomes.append("done")
        except StorageFull:
            outcomes.append("full")
    file.truncate(6)
    try:
        os.mkdir(path + ".d")
        os.rmdir(path + ".d")
        outcomes.append("done")
    except OSError as error:
        outcomes.append(os.strerror(error.errno))
    print(*outcomes, time.clock_gettime(time.CLOCK_REALTIME), sep=";", flush=True)
"""


def names_of_namespaces() -> set[str]:
    return {path.name for path in NAMES.glob(f"{PREFIX}-*")} if NAMES.exists() else set()


@contextmanager
def soak(folder: Path, network: str, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Runs it in its own process, because clients that are cut off leave threads and warnings behind."""
    pytest.importorskip("pyspark", reason="the jars of ZooKeeper come with the extra `cluster`")
    if network == NAMESPACES and (reason := reason_against()):
        pytest.skip(reason)
    command = [sys.executable, "-m", "tests.soak", "--cluster", "--seed", "1", "--network", network]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, ROOT))), "TMPDIR": str(folder)}
    with subprocess.Popen(
        [*command, *flags], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        try:
            yield running
        finally:
            running.terminate()
    # Nothing is left on the machine.
    assert not [each for each in names_of_namespaces() if each.startswith(f"{PREFIX}-{running.pid}-")]
    assert processes_in(folder) == []


def processes_in(folder: Path) -> list[str]:
    """Returns the commands of processes that work in a folder."""
    commands = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and (process / "cwd").readlink().is_relative_to(folder):
                commands.append((process / "cmdline").read_text())
    return commands


@pytest.mark.parametrize("network", [PROXIES, NAMESPACES])
def test_a_cluster_with_faults_of_all_kinds_keeps_every_promise(tmp_path: Path, network: str) -> None:
    figures = tmp_path / "figures.json"

    with soak(tmp_path, network, "--minutes", "0.25", "--json", str(figures)) as running:
        printed, _ = running.communicate(timeout=TIMEOUT_S)

    assert running.returncode == 0, printed
    assert "warren cluster verify: all replicas are equal" in printed
    facts = json.loads(figures.read_text())
    assert (facts["faults"], facts["network"]) == ([], network)
    assert sum(facts["nemeses"].values()) >= 1
    assert facts["messages"] > 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    network = PROXIES if reason_against() else NAMESPACES

    with soak(tmp_path, network, "--minutes", "60") as running:
        assert running.stdout is not None
        lines = iter(running.stdout.readline, "")
        assert next((line for line in lines if f"network: {network}" in line), None) is not None
        assert processes_in(tmp_path)
        running.send_signal(number)
        running.communicate(timeout=TIMEOUT_S)

    assert running.returncode in (-signal.SIGINT, ENDED_BY_SIGTERM)


def test_the_machine_of_a_replica_has_a_slow_and_a_full_disk_and_a_wrong_clock(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "file")]

    with subprocess.Popen(
        command, env=os.environ | machine.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as replica:
        assert replica.stdin is not None
        assert replica.stdout is not None

        def report_of(state: MachineState) -> list[str]:
            assert replica.stdin is not None
            assert replica.stdout is not None
            machine.set(state)
            replica.stdin.write("\n")
            replica.stdin.flush()
            return replica.stdout.readline().strip().split(";")

        sound = report_of(SOUND)
        full = report_of(MachineState(is_full=True))
        slow = report_of(MachineState(sync_s=0.2))
        ahead = report_of(MachineState(ahead_s=STEP_S))
        again = report_of(SOUND)
        replica.stdin.close()
        assert replica.wait(PATIENCE_S) == 0

    assert sound[2:6] == again[2:6] == ["done", "done", "done", "done"]
    # What is allocated can still be written.
    assert full[2:6] == ["done", "full", "full", "No space left on device"]
    assert float(slow[1]) >= 0.2
    assert float(ahead[0]) - float(ahead[6]) > STEP_S / 2
    assert abs(float(again[0]) - float(again[6])) < STEP_S / 2
