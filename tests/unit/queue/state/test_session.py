"""Sessions: an open store is known to be open, and one whose process died is known not to be."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_disk import SimulatedFileSystem
from warren.queue.state.session import Session


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


def test_files_of_a_dead_session_are_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f"{'0' * 32}.session").write_bytes(b"")
    (tmp_path / "other").write_bytes(b"")

    session = Session(QUICK_DISK, str(tmp_path))
    session.sweep()

    assert sorted(os.listdir(tmp_path)) == sorted([f"{session.id}.session", "other"])


def test_no_session_survives_a_power_cut() -> None:
    disk = SimulatedFileSystem()
    id = Session(disk, "/data/sessions").id

    assert not Session(disk.after_power_cut(1), "/data/sessions").is_alive(id)
    assert not Session(disk.after_process_kill(), "/data/sessions").is_alive(id)
