"""The seam to the operating system: what each call promises on a real disk."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warren.errors import StorageFull, SyncFailed
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, SystemFile

DISK = SYSTEM_FILE_SYSTEM


def new_file(path: Path, content: bytes = b"") -> SystemFile:
    file = DISK.open(str(path / "file"), writable=True, create=True)
    file.write(0, content)
    return file


def failing(code: int) -> Callable[..., Any]:
    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


# --- Files ---


def test_written_bytes_are_read_back(tmp_path: Path) -> None:
    file = new_file(tmp_path, b"0123456789")

    file.write(3, b"abc")

    assert file.read(0, 100) == b"012abc6789"
    assert file.read(4, 2) == b"bc"
    assert file.read(10, 5) == b""
    assert (file.size(), file.path) == (10, str(tmp_path / "file"))


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: write(fd, data[:3], position))
    file = new_file(tmp_path)

    file.write(2, b"0123456789")

    assert file.read(0, 100) == b"\0\0" + b"0123456789"


def test_a_missing_file_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open(str(tmp_path / "none"), writable=True)
    with pytest.raises(FileNotFoundError):
        DISK.open(str(tmp_path / "none"), writable=False)

    DISK.open(str(tmp_path / "none"), writable=True, create=True)

    assert (tmp_path / "none").stat().st_mode & 0o007 == 0


def test_a_file_opened_for_reading_is_not_written(tmp_path: Path) -> None:
    new_file(tmp_path, b"content")
    file = DISK.open(str(tmp_path / "file"), writable=False)

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(0, b"x")
    with pytest.raises(TypeError):
        file.map(7, writable=False)[0] = 1


def test_a_map_is_the_file_itself_and_stays_when_it_is_closed(tmp_path: Path) -> None:
    file = new_file(tmp_path, b"content")
    view = file.map(7, writable=True)

    view[0:3] = b"CON"
    file.close()
    view[3:4] = b"T"

    assert (tmp_path / "file").read_bytes() == b"CONTent"


def test_preallocated_space_is_zeros_with_disk_space(tmp_path: Path) -> None:
    file = new_file(tmp_path, b"content")

    file.preallocate(1 << 20)

    assert file.size() == 1 << 20
    assert file.read(0, 1 << 20) == b"content".ljust(1 << 20, b"\0")
    assert os.stat(file.path).st_blocks * 512 >= 1 << 20


def test_a_system_without_fallocate_writes_the_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    file = new_file(tmp_path, b"content")

    file.preallocate(200_000)

    assert file.read(0, 200_001) == b"content".ljust(200_000, b"\0")
    assert os.stat(file.path).st_blocks * 512 >= 200_000 - 4096


def test_clearing_leaves_zeros_and_nothing_else_changes(tmp_path: Path) -> None:
    file = new_file(tmp_path, b"x" * 200_000)

    file.clear(5, 150_000)

    assert file.read(0, 200_001) == b"x" * 5 + bytes(149_995) + b"x" * 50_000


def test_truncating_cuts_and_grows(tmp_path: Path) -> None:
    file = new_file(tmp_path, b"content")

    file.truncate(3)
    file.truncate(5)

    assert file.read(0, 10) == b"con\0\0"


def test_closing_a_file_twice_does_no_harm(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.close()
    other = DISK.open(file.path, writable=True)

    file.close()
    del file

    assert other.size() == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_raises_storage_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    file = new_file(tmp_path, b"content")
    monkeypatch.setattr(os, "pwrite", failing(code))
    monkeypatch.setattr(os, "posix_fallocate", failing(code))
    monkeypatch.setattr(os, "open", failing(code))

    with pytest.raises(StorageFull, match=r"no room on the disk for 4 bytes in .*; free some space") as full:
        file.write(0, b"more")
    with pytest.raises(StorageFull) as of_preallocate:
        file.preallocate(107)
    with pytest.raises(StorageFull):
        DISK.open(str(tmp_path / "other"), writable=True, create=True)

    assert (full.value.path, full.value.size, full.value.retryable) == (file.path, 4, True)
    assert of_preallocate.value.size == 100


def test_no_space_for_a_directory_a_lock_or_a_name_raises_storage_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lock = new_file(tmp_path, b"content"), DISK.lock(str(tmp_path / "lock"))
    for name in ("mkdir", "open", "pwrite", "replace"):
        monkeypatch.setattr(os, name, failing(errno.ENOSPC))

    with pytest.raises(StorageFull, match=r"in .*directory; free some space"):
        DISK.make_directory(str(tmp_path / "directory"))
    with pytest.raises(StorageFull, match=r"in .*other; free some space"):
        DISK.lock(str(tmp_path / "other"))
    with pytest.raises(StorageFull, match=r"for 3 bytes in .*lock; free some space"):
        lock.note_holder(12)
    with pytest.raises(StorageFull, match=r"in .*target; free some space"):
        DISK.replace(file.path, str(tmp_path / "target"))


def test_other_errors_of_the_system_pass_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = new_file(tmp_path)
    monkeypatch.setattr(os, "pwrite", failing(errno.EIO))

    with pytest.raises(OSError, match="Input/output error") as error:
        file.write(0, b"more")

    assert not isinstance(error.value, StorageFull)


def test_a_failed_sync_raises_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = new_file(tmp_path)
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))

    with pytest.raises(SyncFailed, match="Input/output error") as failed:
        file.sync()
    with pytest.raises(SyncFailed, match="Input/output error") as of_directory:
        DISK.sync_directory(str(tmp_path))

    assert (failed.value.path, of_directory.value.path) == (file.path, str(tmp_path))


def test_a_sync_asks_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))

    new_file(tmp_path).sync()
    DISK.sync_directory(str(tmp_path))

    assert synced == [str(tmp_path / "file"), str(tmp_path)]
    assert len(os.listdir("/proc/self/fd")) == before


# --- Locks ---


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    one, two = DISK.lock(str(tmp_path / "lock")), DISK.lock(str(tmp_path / "lock"))

    assert (one.try_acquire(), two.try_acquire()) == (True, False)
    one.release()
    assert two.try_acquire()
    two.close()
    assert one.try_acquire()
    del one
    assert DISK.lock(str(tmp_path / "lock")).try_acquire()


def test_the_holder_of_a_lock_may_write_its_process_id(tmp_path: Path) -> None:
    one, two = DISK.lock(str(tmp_path / "lock")), DISK.lock(str(tmp_path / "lock"))
    assert two.holder() == 0

    one.note_holder(1_234_567)
    assert two.holder() == 1_234_567
    one.note_holder(89)
    assert two.holder() == 89
    one.note_holder(0)
    assert two.holder() == 0
    assert (tmp_path / "lock").read_bytes() == b""


def test_a_note_that_is_not_a_number_names_no_holder(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"a name\n")

    assert DISK.lock(str(tmp_path / "lock")).holder() == 0


def test_closing_a_lock_twice_does_no_harm(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    lock.close()
    other = DISK.open(str(tmp_path / "lock"), writable=True)

    lock.close()
    del lock

    assert other.size() == 0


# --- Directories ---


def test_names_are_sorted_and_exist(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name).touch()

    assert DISK.names(str(tmp_path)) == ["a", "b", "c"]
    assert DISK.exists(str(tmp_path / "a"))
    assert not DISK.exists(str(tmp_path / "d"))


def test_a_file_is_removed_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")

    DISK.replace(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"a"
    DISK.remove(str(tmp_path / "b"))

    assert DISK.names(str(tmp_path)) == []


def test_a_directory_is_made_with_its_parents_each_of_them_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))

    DISK.make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    DISK.make_directory(str(tmp_path / "a" / "b"))

    assert len(synced) == 2


def test_a_directory_that_another_process_has_just_created_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def make_first(path: str, mode: int) -> None:
        make(path, mode)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", make_first)

    DISK.make_directory(str(tmp_path / "a"))

    assert (tmp_path / "a").is_dir()


def test_the_start_of_the_machine_has_a_name_of_sixteen_bytes() -> None:
    assert DISK.boot_id() == DISK.boot_id()
    assert re.fullmatch(r"[0-9a-f]{32}", DISK.boot_id().hex())
    assert any(DISK.boot_id())


# --- Vouching ---


def test_a_file_is_vouched_for_as_long_as_another_opening_of_it_lasts(tmp_path: Path) -> None:
    one, other = new_file(tmp_path, b"content"), DISK.open(str(tmp_path / "file"), writable=True)
    assert (one.is_vouched(), other.is_vouched()) == (False, False)

    one.vouch()

    assert (one.is_vouched(), other.is_vouched()) == (False, True)
    DISK.open(str(tmp_path / "file"), writable=True).close()
    assert other.is_vouched()
    one.close()
    assert other.is_vouched() is False


def test_a_map_keeps_a_file_vouched_for(tmp_path: Path) -> None:
    """Its file system cannot disappear while the map exists."""
    one, other = new_file(tmp_path, b"content"), DISK.open(str(tmp_path / "file"), writable=True)
    view = one.map(7, writable=True)
    one.vouch()

    one.close()

    assert other.is_vouched()
    view.close()
    assert other.is_vouched() is False


@pytest.mark.parametrize("name", ["F_OFD_SETLK", "F_OFD_GETLK"])
def test_without_such_locks_the_answer_is_unknown(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = new_file(tmp_path, b"content"), DISK.open(str(tmp_path / "file"), writable=True)
    monkeypatch.delattr(fcntl, name)

    one.vouch()

    assert other.is_vouched() is (False if name == "F_OFD_SETLK" else None)
