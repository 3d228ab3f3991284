"""The checks with franz-go, by a Go program."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.conformance.bodies import PATIENCE_S
from tests.conformance.rows import COMPRESSIONS, PRODUCE_AND_CONSUME, Client

VERSION: Final = "v1.22.2"
PACKAGE: Final = f"github.com/twmb/franz-go/pkg/kgo@{VERSION}"
PROGRAM: Final = Path(__file__).with_name("franz_go_checks.go")
BUILD_S_MAX: Final = 300.0
TRIED: Final = (PRODUCE_AND_CONSUME, "groups", "transactions")


class NotInstalled(Exception):
    """Go is not installed, or the module could not be downloaded."""


def installed(directory: Path) -> Client:
    """Builds the program in a directory, with the module that Go downloads."""
    if shutil.which("go") is None:
        raise NotInstalled("Go is wanted")
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAM, directory / "main.go")
    if not (directory / "go.mod").exists():
        _run(directory, "go", "mod", "init", "checks")
        _run(directory, "go", "get", PACKAGE)
    _run(directory, "go", "build", "-o", "checks", ".")
    checks = {each: functools.partial(_check, directory / "checks", each) for each in TRIED}
    return Client("franz-go", VERSION, COMPRESSIONS, checks)


def _run(directory: Path, *command: str) -> None:
    completed = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=BUILD_S_MAX)
    if completed.returncode:
        raise NotInstalled(f"{' '.join(command)}: {completed.stderr.strip()}")


def _check(program: Path, feature: str, address: str, compression: str) -> None:
    completed = subprocess.run(
        [program, address, feature, compression], capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False
    )
    assert completed.returncode == 0, completed.stderr
