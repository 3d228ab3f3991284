"""Each byte of a small log is changed, and each file cut at each length: the right messages or an error, nothing else.

What each way of opening may make of a damaged log:

- For reading, every call gives the messages that were written or raises a `StorageError`: `CorruptRecord` with the file
  and the position, `NotALog` or `UnknownVersion` if the head of the index looks so. Nothing is changed on disk.
- For writing, the same; and a record of the *last* block that does not check looks like one that a crash tore. If the
  log has to be recovered, it and what stands behind it may be cut, never anything before it. Damage in an earlier block
  is reported and stays. The index is derived: damage there costs no message.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash import damage

PARTS: Final = 2
TIMEOUT_S: Final = 280


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory if there is one, because tens of thousands of logs are created and removed here."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", list(damage.KINDS))
def test_a_damaged_log_gives_the_right_messages_or_a_clear_error(kind: str, part: int, place: Path) -> None:
    original, scratch = place / "original", place / "scratch"
    scratch.mkdir()
    damage.build(kind, str(original))

    command = [sys.executable, "-X", "faulthandler", "-m", "tests.crash.damage", kind, original, scratch, part, PARTS]
    # The process imports the same engine as this one.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

    progress = scratch / "progress"
    wound = progress.read_text().strip() if progress.exists() else "the start"
    assert ended.returncode == 0, f"{kind}: ended with {ended.returncode} at: {wound}\n{ended.stderr[-3000:]}"
    assert int(ended.stdout) >= len(damage.wounds(kind, damage.read_files(original))) // PARTS


def test_corruption_reaches_every_kind_of_log(tmp_path: Path) -> None:
    for kind in damage.KINDS:
        damage.build(kind, str(tmp_path / kind))

    wholes = {kind: damage.Whole.of(tmp_path / kind) for kind in damage.KINDS}

    assert all(len(whole.messages) >= 5 for whole in wholes.values())
    assert sum(name.endswith(".block") for name in wholes["blocks"].files) >= 3
    assert all("readers/billing.reader" in whole.files for whole in wholes.values())
