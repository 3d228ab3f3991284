"""`warren log repair`: a log made whole again, and what that cost."""

from __future__ import annotations

import os

from rich.console import Console

from warren.cli.show import size_text
from warren.cli.target import open_to_read, require_log
from warren.errors import StorageError
from warren.storage import Log
from warren.storage.recovery import Recovery


def repair(path: str) -> None:
    """Recover the log, cutting it at its first damage, and show what was cut. A whole log keeps every message."""
    require_log(path, needs_index=False)
    end_before = _known_end(path)
    with Log.open(path, repair=True) as log:
        first, end, recovery = log.first, log.end, log.recovery
    console = Console(highlight=False, soft_wrap=True)
    if recovery is not None:
        for line in _cut_lines(recovery):
            console.print(line, style="yellow")
        if end_before is not None and end_before > end:
            console.print(f"lost {end_before - end:,} messages: the log ended at {end_before:,}", style="yellow")
    console.print(f"[green]whole[/]: {end - first:,} messages, from {first:,} up to {end:,}")


def _known_end(path: str) -> int | None:
    """The end that the index gives; None where there is no index that can be read."""
    try:
        with open_to_read(path) as log:
            return log.end
    except StorageError:
        return None


def _cut_lines(recovery: Recovery) -> list[str]:
    lines = [f"removed {removed}" for removed in recovery.removed_paths]
    if recovery.cut_bytes:
        place = f"{os.path.basename(recovery.cut_path)} at byte {recovery.cut_position:,}"
        lines.append(f"cut {size_text(recovery.cut_bytes)} from {place}")
    return lines or ["nothing was cut; the index was made anew"]
