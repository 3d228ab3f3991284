"""Sessions: a store that is open somewhere is known to be, and one whose process died is known not to be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.simulated_disk import SimulatedFileSystem
from tests.unit.fakes import QUICK_DISK
from tests.unit.stores import quick_store
from warren.queue.session import Session

CHILD = """
import sys
from warren.queue.store import Store
store = Store(sys.argv[1], keeps=False)
print(store.session.id, flush=True)
sys.stdin.read()
"""


def test_a_session_is_alive_until_it_is_closed(tmp_path: Path) -> None:
    one, two = Session(QUICK_DISK, str(tmp_path)), Session(QUICK_DISK, str(tmp_path))

    assert one.id != two.id
    assert one.is_alive(one.id)
    assert one.is_alive(two.id)
    two.close()
    two.close()
    assert not one.is_alive(two.id)
    assert not two.is_alive(two.id)
    assert not one.is_alive("0" * 32)
    assert os.listdir(tmp_path) == [f"{one.id}.session"]


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


def test_what_a_dead_session_left_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f"{'0' * 32}.session").write_bytes(b"")
    (tmp_path / "other").write_bytes(b"")

    session = Session(QUICK_DISK, str(tmp_path))
    session.sweep()

    assert sorted(os.listdir(tmp_path)) == sorted([f"{session.id}.session", "other"])


def test_a_child_has_a_session_of_its_own(tmp_path: Path) -> None:
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
        # The parent's session is over although the child, which inherited its files, lives on.
        assert not other.session.is_alive(parent_id)
        assert other.session.is_alive(child_id)
        os.write(gate_write, b"x")
        os.waitpid(child, 0)
        assert not other.session.is_alive(child_id)
    for descriptor in (read_end, write_end, gate_read, gate_write):
        os.close(descriptor)


def test_no_session_survives_a_power_cut() -> None:
    disk = SimulatedFileSystem()
    id = Session(disk, "/data/sessions").id

    assert not Session(disk.after_power_cut(1), "/data/sessions").is_alive(id)
    assert not Session(disk.after_process_kill(), "/data/sessions").is_alive(id)
