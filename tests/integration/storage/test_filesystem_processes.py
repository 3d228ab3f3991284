"""A process vouches for a file only as long as it lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM


def test_a_dead_process_does_not_vouch_for_a_file(tmp_path: Path) -> None:
    file = SYSTEM_FILE_SYSTEM.open(str(tmp_path / "file"), writable=True, create=True)
    file.write(0, b"content")
    code = (
        "import os, sys; from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM as disk;"
        "disk.open(sys.argv[1], writable=True).vouch();"
        "file = disk.open(sys.argv[1], writable=True); file.vouch(); print('vouched', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, file.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"vouched\n"
        assert file.is_vouched()

        process.kill()
        process.wait()

    assert file.is_vouched() is False
