"""The paths of shipped files: all of them, in order, and from any of them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.replication.disk.shipped_paths import shipped_paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, SystemFileSystem

FILES = (
    "store.json",
    "topics/a/topic.json",
    "topics/a/0/index",
    "topics/a/groups/g/settings.json",
    "topics/a-b/topic.json",
    "topics/a.b/topic.json",
    "topics/a.new/topic.json",
    "topics/ab/0/readers/r.reader",
    "topics-of-others/a",
    "users.json",
)
"""`a-b` and `a.b` come before `a/…`, and `ab` behind it, because a slash stands between them."""
LOCAL = ("store.lock", "topics/a/0/0.block", "topics/a/0/writer.lock", "sessions/1.session", "pipelines/p/state")


@pytest.fixture
def root(tmp_path: Path) -> str:
    for path in (*FILES, *LOCAL):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    (tmp_path / "topics/empty").mkdir()
    return str(tmp_path)


def test_all_shipped_files_come_in_order(root: str) -> None:
    assert list(shipped_paths(SYSTEM_FILE_SYSTEM, root)) == sorted(FILES)


@pytest.mark.parametrize("after", ["", "a", "store.json", "topics/a", "topics/a/", "topics/a0", "z", *FILES, *LOCAL])
def test_only_paths_that_come_after_another_are_there(root: str, after: str) -> None:
    assert list(shipped_paths(SYSTEM_FILE_SYSTEM, root, after)) == sorted(path for path in FILES if path > after)


def test_a_directory_that_lies_before_the_path_is_not_read(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    names = SystemFileSystem.names

    def recorded(filesystem: SystemFileSystem, directory: str) -> list[str]:
        read.append(directory.removeprefix(root + "/"))
        return names(filesystem, directory)

    monkeypatch.setattr(SystemFileSystem, "names", recorded)

    assert next(shipped_paths(SYSTEM_FILE_SYSTEM, root, "topics/a/topic.json")) == "topics/ab/0/readers/r.reader"
    assert not {"topics/a-b", "topics/a.b", "topics/a/0", "topics/a/groups"} & {*read}


def test_a_store_that_is_gone_has_no_paths(tmp_path: Path) -> None:
    assert list(shipped_paths(SYSTEM_FILE_SYSTEM, str(tmp_path / "none"))) == []
