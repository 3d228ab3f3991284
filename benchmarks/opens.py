"""Opening a log: one that was closed, of any size, and one that a crash left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks import children
from benchmarks.counting import PAGE_SIZE, CountingFileSystem, synced_copy
from benchmarks.measure import Contestant, Figure, NotMeasured, Row, at_most, times
from benchmarks.workspace import Contest, Workspace, count_text
from warren.storage import Log
from warren.storage.format.layout import aligned

ANOTHER_BOOT: Final = b"another boot id."
TORN: Final = b"torn" * 20


def clean(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    paths = [workspace.single_log(scale.messages_few), workspace.single_log(scale.messages_many)]
    opens = [Contestant("open", 1, _opening(path)) for path in paths]
    first_reads = [Contestant("open and last", 1, _opening(path, reads=True)) for path in paths]
    small, large, small_read, large_read = times(opens + first_reads, scale.opens)
    what = f"{count_text(scale.messages_many)} messages over {count_text(scale.messages_few)}"
    return [
        Row(
            name="opens.clean.open",
            what=f"open of a clean log, {what}",
            baseline=small,
            measured=large,
            bar=at_most(2),
        ),
        Row(
            name="opens.clean.read",
            what=f"open and read the last message, {what}",
            baseline=small_read,
            measured=large_read,
        ),
    ]


def _opening(path: Path, *, reads: bool = False) -> Callable[[], float]:
    def run() -> float:
        start = perf_counter()
        log = Log.open(path)
        if reads:
            log.last(1)
        seconds = perf_counter() - start
        log.close()
        return seconds

    return run


def after_kill(workspace: Workspace) -> list[Row]:
    """A writer that had the lock for itself dies; the machine continues, so every byte it wrote exists."""
    path = _left_by_kill(workspace, "os")
    return [_recovery_row(path, "opens.kill", "open after SIGKILL of the writer", CountingFileSystem())]


def after_power_cut(workspace: Workspace) -> list[Row]:
    """A writer dies with its machine: the index is as it was last synced, and a record is torn."""
    rows = []
    for durability in ("commit", "os"):
        path = _left_by_kill(workspace, durability)
        _lose_what_was_not_synced(path)
        filesystem = CountingFileSystem(boot_id=ANOTHER_BOOT)
        what = f"open after a power cut, {durability}"
        rows.append(_recovery_row(path, f"opens.power.{durability}", what, filesystem))
    return rows


def _left_by_kill(workspace: Workspace, durability: str) -> Path:
    if not os.path.exists("/proc/self/pagemap"):
        raise NotMeasured("there is no /proc/self/pagemap to count touched pages with")
    workspace.step(f"a writer with {durability} is killed")
    path = workspace.fresh(f"killed-{durability}")
    child = children.start("write", str(path), durability, str(workspace.scale.block_size))
    try:
        children.wait_until_ready(child)
    finally:
        child.kill()
        child.wait()
    return path


def _lose_what_was_not_synced(path: Path) -> None:
    """The index goes back to its last sync, and half of an unacknowledged record follows the end."""
    index_path, last_block = path / "index", _last_block(path)
    shutil.copyfile(synced_copy(str(index_path)), index_path)
    used = aligned(len(last_block.read_bytes().rstrip(b"\0")))
    with open(last_block, "r+b") as file:
        file.seek(used)
        file.write(TORN)


def _recovery_row(path: Path, name: str, what: str, filesystem: CountingFileSystem) -> Row:
    """How much of the blocks is read, in whole pages, without the page with the head of each earlier one."""
    *earlier, last = sorted(path.glob("*.block"))
    block_pages = -(-last.stat().st_size // PAGE_SIZE)
    start = perf_counter()
    log = Log.open(path, filesystem=filesystem)
    seconds = perf_counter() - start
    assert log.recovery is not None, "the log was not left by a crash"
    in_last = len(filesystem.tally.pages_seen(str(last)))
    in_earlier = sum(len(filesystem.tally.pages_seen(str(block)) - {0}) for block in earlier)
    facts = {"seconds": seconds, "pages_in_last_block": in_last, "pages_in_earlier_blocks": in_earlier}
    log.close()
    shutil.rmtree(path)
    read = Figure(name="bytes read", value=(in_last + in_earlier) * PAGE_SIZE, unit="B", facts=facts)
    block = Figure(name="the last block", value=block_pages * PAGE_SIZE, unit="B")
    return Row(name=name, what=f"{what}: bytes read", baseline=block, measured=read, bar=at_most(1))


def _last_block(path: Path) -> Path:
    return max(path.glob("*.block"))


CONTESTS: Final[Sequence[Contest]] = (
    Contest("opens.clean", clean),
    Contest("opens.kill", after_kill),
    Contest("opens.power", after_power_cut),
)
