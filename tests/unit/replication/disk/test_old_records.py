"""Old records for a slave that joins: also those that are laid, and not published because no slave has them."""

from __future__ import annotations

from pathlib import Path

from warren.clock import SYSTEM_CLOCK
from warren.replication.changes import LogRange
from warren.replication.disk.log_facts import facts_of, log_name, read_index
from warren.replication.disk.old_records import read_ranges
from warren.replication.disk.replica import Ranges
from warren.storage import Log
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM

LOG = "topics/orders/0"
SIZE_MAX = 1 << 20


def ends(ranges: Ranges) -> list[tuple[int, int]]:
    return [(item.first, item.end) for item in ranges.items if isinstance(item, LogRange)]


def data(ranges: Ranges) -> bytes:
    return b"".join(bytes(item.data) for item in ranges.items if isinstance(item, LogRange) and item.data)


def test_records_that_are_laid_and_not_published_are_read(tmp_path: Path) -> None:
    directory = tmp_path / LOG
    directory.parent.mkdir(parents=True)
    with Log.open(str(directory), durability="os") as log:
        for number in range(3):
            log.append(b"published %d" % number)
        published = (directory / "index").read_bytes()
        for number in range(2):
            log.append(b"laid %d" % number)
    (directory / "index").write_bytes(published)
    index = read_index(SYSTEM_FILE_SYSTEM, str(directory))
    assert index is not None
    name = log_name(LOG, facts_of(index))

    part = read_ranges(SYSTEM_FILE_SYSTEM, str(tmp_path), [(name, 1, 5)], SIZE_MAX, SYSTEM_CLOCK)
    short = read_ranges(SYSTEM_FILE_SYSTEM, str(tmp_path), [(name, 3, 5)], 1, SYSTEM_CLOCK)

    assert part is not None
    assert ends(part) == [(1, 5), (5, 5)]
    assert b"laid 1" in data(part)
    assert short is not None
    assert ends(short) == [(3, 4)]
    assert short[1] == [(name, 4, 5)]
