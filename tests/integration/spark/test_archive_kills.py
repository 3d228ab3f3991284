"""Archiving processes that are killed at any point: each message is archived once, and no files are left over."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.support.spark.archives import archived, verified
from tests.tidy.source import ROOT, SOURCE
from warren.spark.archive.manifest import load_manifest
from warren.spark.store_access.files import FileCatalog

KILLS = 12


def kill_one(place: Path, after_s: float) -> None:
    command = [sys.executable, "-m", "tests.integration.spark.archive_victim", str(place)]
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{ROOT}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        victim.kill()


def test_archiving_that_is_killed_again_and_again_has_every_message_once(tmp_path: Path) -> None:
    chance = random.Random(11)

    for _ in range(KILLS):
        kill_one(tmp_path, chance.uniform(0.02, 0.3))
    archived(tmp_path / "s", tmp_path / "a", "orders")

    report = verified(tmp_path / "s", tmp_path / "a")
    catalog = FileCatalog(str(tmp_path / "s"))
    ends = {}
    for partition in range(2):
        with catalog.log("orders", partition) as log:
            ends["orders", partition] = log.end
    manifest = load_manifest(str(tmp_path / "a"))
    on_disk = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*.parquet")}
    assert report.findings == []
    assert manifest.ends() == ends
    assert on_disk == {file.path for file in manifest.files}
    assert os.listdir(tmp_path / "a" / "_staging") == []
