"""Engines without one safeguard, and the tests that notice: `python -m tests.crash.mutants`.

A mutant is a copy of the source in which a few lines were changed. A useful test fails on it. An edit that does not
find its lines is an error: a change that moves a safeguard must move the mutant too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
HUNT_S_MAX: Final = 200


class Edit(NamedTuple):
    """A pattern that occurs at least once in the named files of the engine, and its replacement."""

    files: str
    old: str
    new: str


class Mutant(NamedTuple):
    """A missing safeguard, and the hunters of which at least one must notice."""

    name: str
    edits: Sequence[Edit]
    hunters: Sequence[str]
    within: str = "storage"
    """The room of the source, relative to `warren`, in which the files of the edits are."""


class Hunt(NamedTuple):
    """The result for a mutant: which hunter noticed it, if any, and how long that took."""

    mutant: Mutant
    killed_by: str | None
    seconds: float
    words: str


HUNTERS: Final[Mapping[str, Sequence[str]]] = {
    "power cuts": ("-m", "tests.crash.forever", "--seed", "1", "--lives", "60"),
    "torn rolls": ("-m", "pytest", "tests/crash/test_power_cuts.py", "-k", "stores_of_a_roll"),
    "stale records": ("-m", "pytest", "tests/crash/test_stale_records.py"),
    "damage": ("-m", "pytest", "tests/crash/test_corruption.py", "-k", "(singles or group) and 0"),
    "failed syncs": ("-m", "pytest", "tests/crash/test_disk_full.py", "-k", "sync"),
    "fail-overs": ("-m", "pytest", "tests/crash/fail_over/test_fail_over.py", "-k", "log or transaction"),
    "clients": ("-m", "pytest", "tests/crash/fail_over/test_surviving_clients.py"),
    "replicas": ("-m", "pytest", "tests/unit/replication/disk"),
    "cuts": ("-m", "pytest", "tests/unit/storage/append/test_cut.py"),
}

MUTANTS: Final[Sequence[Mutant]] = (
    Mutant("no sync before publish", [Edit("commit.py", r"\bblock\.file\.sync\(\)", "pass")], ["power cuts"]),
    Mutant(
        "no checksum check",
        [Edit("checksum.py", r"from fastcrc\S* import \w+ as crc32c", "def crc32c(data):\n    return 1")],
        ["power cuts", "damage"],
    ),
    Mutant(
        "no clearing behind a cut",
        [Edit("recovery.py", r"block\.file\.clear\(end, size\)", "pass")],
        ["stale records", "power cuts"],
    ),
    Mutant(
        "no sync of what was cleared",
        [Edit("recovery.py", r"(block\.file\.clear\(end, size\)\s+)block\.file\.sync\(\)", r"\1pass")],
        ["stale records", "power cuts"],
    ),
    Mutant(
        "no offset check",
        [
            Edit("record.py", r"(head\.)?offset != base_offset \+ position", "False"),
            Edit("*.py", r'heads\["offset"\] == [^)]+\)', 'heads["offset"] >= 0)'),
        ],
        ["stale records"],
    ),
    Mutant(
        "index trusted blindly: its slots and its end",
        [Edit("index.py", r"self\.words\[WORD_CHECKSUM\] == self\._checksum\(\)", "True")],
        ["damage", "power cuts"],
    ),
    Mutant(
        "index trusted blindly: the entries of a block",
        [Edit("block.py", r"bool\(at <= number < at \+ count\)", "True")],
        ["damage"],
    ),
    Mutant(
        "the name of a new block is not synced",
        [Edit("writer.py", r"self\._files\.filesystem\.sync_directory\(self\._files\.directory\)", "pass")],
        ["power cuts"],
    ),
    Mutant(
        "a block that was torn in its making called damage",
        [Edit("recovery.py", r"self\._is_torn\(file, is_first=not before\)", "False")],
        ["torn rolls"],
    ),
    Mutant(
        "the published end believed because the boot id is the same",
        [
            Edit(
                "recovery.py",
                r"files\.is_vouched_by_anyone\(self\._index\)",
                "self._index.boot_id == files.filesystem.boot_id()",
            )
        ],
        ["power cuts"],
    ),
    Mutant(
        "a log used as it lies though no process has it open",
        [Edit("open.py", r"is_left_whole and index\.is_vouched\(\) is not False", "is_left_whole")],
        ["power cuts"],
    ),
    Mutant(
        "what a failed sync left is not stored again",
        [Edit("recovery.py", r"self\._rewrites = self\._index\.boot_id == [^\n]+", "self._rewrites = False")],
        ["failed syncs"],
    ),
)


def breed(mutant: Mutant, place: Path) -> Path:
    """Makes a copy of the source in `place`, with the mutant's edits."""
    shutil.copytree(SOURCE, place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for edit in mutant.edits:
        total = 0
        for path in (place / "src" / "warren" / mutant.within).rglob(edit.files):
            text, count = re.subn(edit.old, edit.new, path.read_text())
            path.write_text(text)
            total += count
        if not total:
            raise AssertionError(f"{mutant.name}: {edit.files} has no {edit.old!r}; move the mutant with its safeguard")
    return place / "src"


def send(hunter: str, source: Path) -> subprocess.CompletedProcess[str]:
    """Runs a hunter on the engine in `source`."""
    command = [sys.executable, *HUNTERS[hunter]]
    if "pytest" in command:
        command += ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", f"pythonpath={ROOT} {source}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HUNT_S_MAX, check=False
    )


def hunt(mutant: Mutant) -> Hunt:
    """Makes the mutant and runs its hunters, one after the other, until one fails on it."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        source = breed(mutant, Path(place))
        for hunter in mutant.hunters:
            ended = send(hunter, source)
            if ended.returncode:
                return Hunt(mutant, hunter, time.monotonic() - started, _last_words(ended))
    return Hunt(mutant, None, time.monotonic() - started, "")


def _last_words(ended: subprocess.CompletedProcess[str]) -> str:
    """Returns the line of the output that names the failure."""
    lines = (ended.stdout + ended.stderr).splitlines()
    telling = [line for line in lines if line.startswith(("E ", "seed")) and ":" in line] or lines[-1:]
    return telling[-1][:160].strip()


def main() -> int:
    """Returns 0 if every mutant was noticed, and no hunter fails on the unchanged engine."""
    whole = hunt(Mutant("the engine as it is", [], list(HUNTERS)))
    if whole.killed_by:
        sys.stdout.write(f"{whole.killed_by} fails without any mutant: {whole.words}\n")
        return 1
    survivors = 0
    for mutant in MUTANTS:
        result = hunt(mutant)
        survivors += result.killed_by is None
        outcome = f"killed by {result.killed_by}" if result.killed_by else "SURVIVED"
        sys.stdout.write(f"{mutant.name}: {outcome} after {result.seconds:.1f} s\n    {result.words}\n")
        sys.stdout.flush()
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
