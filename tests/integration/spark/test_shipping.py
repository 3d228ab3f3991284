"""Python imports Warren from the zip file that is sent to Spark's workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warren.spark.runtime.shipping import package_zip


def test_python_imports_warren_from_the_zip(tmp_path: Path) -> None:
    path = package_zip(str(tmp_path))

    code = (
        "from warren.spark.runtime import tuning; print(tuning.__file__, tuning.settings_for('yarn', {}), sep=chr(10))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stderr == ""
    assert completed.stdout.startswith(path)
    assert "log4j2" not in completed.stdout
