"""`make audit` reports why it found nothing."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.source import ROOT


def script(name: str) -> dict[str, Any]:
    """The names in a script of `deploy`."""
    return runpy.run_path(str(ROOT / "deploy" / name))


def test_an_audit_without_its_program_reports_that_nothing_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("audit.py")["main"]("/no/such/pip-audit", str(ROOT / "constraints.txt")) == 0

    assert capsys.readouterr().out.startswith("known vulnerabilities were not looked up")


def test_an_audit_that_cannot_reach_the_database_says_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho 'no route to the database' >&2\nexit 1\n")
    program.chmod(0o755)

    assert script("audit.py")["main"](str(program), str(ROOT / "constraints.txt")) == 0

    assert capsys.readouterr().out == "known vulnerabilities were not looked up: no route to the database\n"
