"""A user who may only read the files of a store can read its messages."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import warren

OTHER_USER_ID = 65_534
READER = """
import os, sys
import warren

def read():
    with warren.open(sys.argv[1], read_only=True) as store:
        topic = store.topic("orders")
        return [message.body for message in topic.last(2)], topic.describe_group("q").behind

# Once as root, so that every module is imported: the other user may not be able to read those.
read()
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
try:
    warren.open(sys.argv[1]).close()
except PermissionError:
    print("may not write")
print(*read())
"""


def files_of(path: Path) -> dict[str, tuple[int, bytes]]:
    """Returns every file below `path`, with its mode and its bytes."""
    files = [each for each in sorted(path.rglob("*")) if each.is_file()]
    return {str(each): (stat.S_IMODE(each.stat().st_mode), each.read_bytes()) for each in files}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A closed store that every user may read and only its owner write, in a directory that every user may enter."""
    directory = Path(tempfile.mkdtemp())
    with warren.open(directory / "data", keeps=False) as store:
        topic = store.topic("orders", partitions=2)
        topic.put_many([b"0", b"1", b"2", b"3"], partition=0)
        topic.put(b"4", partition=1)
        with topic.group("q", mode="queue") as workers:
            workers.ack(workers.take(1)[0])
            workers.reject(workers.take(1)[0], "no")
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield directory / "data"
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_only_read_the_files_reads_the_messages(shared: Path) -> None:
    before = files_of(shared)

    completed = subprocess.run(
        [sys.executable, "-c", READER, str(shared), str(OTHER_USER_ID)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert completed.stderr == ""
    assert completed.stdout.splitlines() == ["may not write", "[b'3', b'4'] 3"]
    assert files_of(shared) == before
