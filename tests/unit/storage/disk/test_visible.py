from __future__ import annotations

from pathlib import Path

import pytest

from warren.storage import Log
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM
from warren.storage.disk.index import Blocks, Index, index_bytes
from warren.storage.format.layout import STATE_CLEAN


def index_at(path: Path) -> Index:
    return Index(SYSTEM_FILE_SYSTEM.open(str(path / "index"), writable=True), writable=True)


def test_without_the_word_readers_see_up_to_the_published_end(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append_many([b"x"] * 5)

        index = index_at(tmp_path)

        assert (index.visible, index.readable_end, index.is_bounded) == (None, 5, False)


@pytest.mark.parametrize("end", [0, 3, 5, 9])
def test_readers_see_up_to_the_word_and_never_beyond_the_published_end(tmp_path: Path, end: int) -> None:
    with Log.open(tmp_path) as log:
        log.append_many([b"x"] * 5)
        index = index_at(tmp_path)

        index.visible = end

        assert (index.visible, index.readable_end) == (end, min(end, 5))
        assert log.end == min(end, 5)
        index.shows_all = True
        assert index.readable_end == 5


def test_the_word_outlives_a_larger_index_and_does_not_make_a_clean_log_dirty(tmp_path: Path) -> None:
    with Log.open(tmp_path, block_size=4096, max_block_count=1) as log:
        log.append(b"x")
        index_at(tmp_path).visible = 1
        for _ in range(50):
            log.append(b"x" * 500)
        assert log.inspect().max_block_count > 1

    index = index_at(tmp_path)
    assert (index.visible, index.is_clean()) == (1, True)
    index.visible = 7
    assert index.is_clean()


def test_an_extension_of_an_earlier_release_may_reach_over_the_word(tmp_path: Path) -> None:
    extension = {"k": "v" * (960 - 32 - 4)}
    data = index_bytes(
        version=2,
        max_block_count=1,
        blocks=Blocks(start=0, slots=()),
        message_count=0,
        extension=extension,
        synced=0,
        boot_id=bytes(16),
        state=STATE_CLEAN,
    )
    (tmp_path / "index").write_bytes(data)

    with Log.open(tmp_path, block_size=4096) as log:
        for _ in range(50):
            log.append(b"x" * 500)

        assert log.end == 50
        assert log.extension == extension
        assert index_at(tmp_path).visible is None
