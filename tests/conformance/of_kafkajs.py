"""The checks with kafkajs, by a Node program."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.conformance.bodies import PATIENCE_S
from tests.conformance.rows import FEATURES, Client

PACKAGES: Final = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
PROGRAM: Final = Path(__file__).with_name("kafkajs_checks.js")


class NotInstalled(Exception):
    """Node is not installed, or the package could not be downloaded."""


def installed(directory: Path) -> Client:
    """Installs kafkajs with npm into a directory. It has gzip itself, and snappy by a package of its authors."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotInstalled("Node and npm are wanted")
    directory.mkdir(parents=True, exist_ok=True)
    modules = directory / "node_modules"
    if not (modules / "kafkajs").exists():
        options = ["--loglevel=error", "--no-audit", "--no-fund", "--prefix", str(directory)]
        completed = subprocess.run(["npm", "install", *options, *PACKAGES], check=False, capture_output=True, text=True)
        if completed.returncode:
            raise NotInstalled(f"npm install {' '.join(PACKAGES)}: {completed.stderr.strip()}")
    version = str(json.loads((modules / "kafkajs" / "package.json").read_text())["version"])
    checks = {each: functools.partial(_check, modules, each) for each in FEATURES}
    return Client("kafkajs", version, ("none", "gzip", "snappy"), checks)


def _check(modules: Path, feature: str, address: str, compression: str) -> None:
    completed = subprocess.run(
        ["node", str(PROGRAM), address, feature, compression],
        env=os.environ | {"NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
