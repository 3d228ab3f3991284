"""A session ends with its process, and a forked child has its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.store.stores import quick_store

CHILD = """
import sys
from warren.queue.store import Store
store = Store(sys.argv[1], keeps=False)
print(store.session.id, flush=True)
sys.stdin.read()
"""


def test_a_session_ends_with_its_process(tmp_path: Path) -> None:
    store = quick_store(tmp_path)
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        id = child.stdout.readline().strip()
        assert store.session.is_alive(id)

        child.kill()
        child.wait()

        assert not store.session.is_alive(id)
    store.close()
    assert os.listdir(tmp_path / "sessions") == []


def test_a_child_has_its_own_session(tmp_path: Path) -> None:
    store = quick_store(tmp_path)
    parent_id = store.session.id
    read_end, write_end = os.pipe()
    gate_read, gate_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, store.session.id.encode())
        os.read(gate_read, 1)
        os._exit(0)

    child_id = os.read(read_end, 32).decode()

    assert child_id != parent_id
    assert store.session.is_alive(child_id)
    store.close()
    with quick_store(tmp_path) as other:
        # The parent's session is over although the child, which inherited its files, is alive.
        assert not other.session.is_alive(parent_id)
        assert other.session.is_alive(child_id)
        os.write(gate_write, b"x")
        os.waitpid(child, 0)
        assert not other.session.is_alive(child_id)
    for descriptor in (read_end, write_end, gate_read, gate_write):
        os.close(descriptor)
