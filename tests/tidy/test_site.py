"""The documentation site builds without a warning: every page, link and object of the reference exists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

BUILD_S_MAX = 300


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="`make setup` installs it, `make setup-core` does not")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]

    build = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )

    assert (build.returncode, build.stdout, build.stderr) == (0, "", "")
    assert (tmp_path / "site" / "api" / "contract.html").is_file()
