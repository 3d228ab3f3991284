"""Thousands of logs in one process: few descriptors, little disk, and every one of them works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.moody_filesystem import MoodyFileSystem
from tests.tidy.source import ROOT, SOURCE
from warren.storage import Log
from warren.storage.disk.open_files import Residents

LOGS = 2000
FILES_MAX = 100


def disk_use(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def test_thousands_of_logs_share_the_descriptors_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Residents(FILES_MAX)
    monkeypatch.setattr("warren.storage.append.open.process_residents", lambda: few)
    disk = MoodyFileSystem(really_syncs=False)
    before = len(os.listdir("/proc/self/fd"))

    logs = [Log.open(tmp_path / str(number), durability="os", filesystem=disk) for number in range(LOGS)]
    for number, log in enumerate(logs):
        log.append(b"%d" % number)

    assert len(os.listdir("/proc/self/fd")) - before <= 2 * FILES_MAX + 20
    for number in range(0, LOGS, 20):
        assert [message.body for message in logs[number].read(0)] == [b"%d" % number]
        assert logs[number].append(b"again").number == 1
    assert len(os.listdir("/proc/self/fd")) - before <= 2 * FILES_MAX + 20
    assert all(log.end >= 1 for log in logs)
    assert disk_use(tmp_path) / LOGS < 64 << 10


def test_an_empty_log_takes_next_to_no_disk(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log") as log:
        assert log.end == 0

    assert disk_use(tmp_path) <= 16 << 10


def test_a_thousand_logs_are_written_in_turn_with_256_descriptors(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "tests.integration.storage.workers", str(tmp_path), "1000", "256"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert completed.returncode == 0, completed.stderr
    assert int(completed.stdout) < 256
