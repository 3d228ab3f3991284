"""Work on many files: by threads on the machine's file system, and one after another on any other."""

from __future__ import annotations

import threading

import pytest

from tests.support.simulated_disk import SimulatedFileSystem
from warren.replication.disk.parallel_work import THREADS, for_each
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem


def test_several_files_are_worked_on_at_the_same_time() -> None:
    meeting = threading.Barrier(THREADS, timeout=10)

    def work(number: int) -> int:
        meeting.wait()
        return number * 2

    assert for_each(SYSTEM_FILE_SYSTEM, work, range(THREADS)) == [number * 2 for number in range(THREADS)]


@pytest.mark.parametrize("filesystem", [SYSTEM_FILE_SYSTEM, SimulatedFileSystem()])
def test_an_error_is_raised(filesystem: FileSystem) -> None:
    with pytest.raises(ZeroDivisionError):
        for_each(filesystem, lambda number: 1 // number, [1, 0, 2])


def test_a_simulated_disk_is_used_by_one_thread() -> None:
    threads = for_each(SimulatedFileSystem(), lambda number: threading.get_ident(), range(5))

    assert {*threads} == {threading.get_ident()}
