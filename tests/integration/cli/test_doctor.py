"""`warren doctor` as a process, and its checks that start Java."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warren import java
from warren.cli.commands import doctor as command
from warren.cli.main import app
from warren.spark.runtime.doctor import check_java, check_spark


def test_the_report_names_a_java_home_that_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))

    checks = list(check_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, missing="failed"))

    assert [each.check for each in checks] == ["JAVA_HOME", "Java"]
    assert [each.state for each in checks] == ["warning", "failed"]
    assert "unset it" in checks[0].advice
    assert "pip install" in checks[1].advice


def test_another_spark_than_the_installed_one_gives_a_warning() -> None:
    checks = [each for each in check_spark({"SPARK_HOME": "/opt/spark"}, is_needed=True) if each.check == "SPARK_HOME"]

    assert [(each.state, each.detail) for each in checks] == [("warning", "Spark comes from /opt/spark")]


def test_the_command_prints_a_table_that_fits_and_leaves_no_files(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--store", str(tmp_path)], env={"COLUMNS": "80"})

    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert re.search(r"^Python +ok +3\.", result.stdout, re.MULTILINE)
    assert os.listdir(tmp_path) == []


def test_the_command_fails_if_a_check_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PACKAGES", {"no-such-package": "1"})

    result = CliRunner().invoke(app, ["doctor", "--json", "--store", str(tmp_path)])

    assert result.exit_code == 1
    failed = [each for each in json.loads(result.stdout) if each["state"] == "failed"]
    assert failed == [
        {
            "check": "no-such-package",
            "state": "failed",
            "found": "not installed",
            "advice": "`pip install warren` installs it",
        }
    ]
