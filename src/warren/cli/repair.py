"""`warren log repair`: a log made whole again, and what that cost."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from warren.cli.show import size_text, write_json
from warren.cli.target import open_to_read, require_log
from warren.errors import StorageError
from warren.storage import Log
from warren.storage.recovery import Recovery


def repair(path: str, *, is_json: bool) -> None:
    """Recover the log, cutting it at its first damage, and show what was cut. A whole log keeps every message."""
    require_log(path, needs_index=False)
    end_before = _known_end(path)
    with Log.open(path, repair=True) as log:
        first, end, recovery = log.first, log.end, log.recovery
    lost = max(0, (end_before or 0) - end) if recovery is not None else 0
    if is_json:
        cut = None if recovery is None else _cut_json(recovery)
        write_json({"path": path, "first": first, "end": end, "messages_lost": lost, "cut": cut})
        return
    console = Console(highlight=False, soft_wrap=True)
    if recovery is not None:
        for line in _cut_lines(recovery):
            console.print(line, style="yellow")
        if lost:
            console.print(f"lost {lost:,} messages: the log ended at {end_before:,}", style="yellow")
    console.print(f"[green]whole[/]: {end - first:,} messages, from {first:,} up to {end:,}")


def _known_end(path: str) -> int | None:
    """The end that the index gives; None where there is no index that can be read."""
    try:
        with open_to_read(path) as log:
            return log.end
    except StorageError:
        return None


def _cut_json(recovery: Recovery) -> dict[str, Any]:
    return {
        "removed": list(recovery.removed_paths),
        "file": recovery.cut_path if recovery.cut_bytes else None,
        "position": recovery.cut_position if recovery.cut_bytes else None,
        "bytes": recovery.cut_bytes,
    }


def _cut_lines(recovery: Recovery) -> list[str]:
    lines = [f"removed {removed}" for removed in recovery.removed_paths]
    if recovery.cut_bytes:
        place = f"{os.path.basename(recovery.cut_path)} at byte {recovery.cut_position:,}"
        lines.append(f"cut {size_text(recovery.cut_bytes)} from {place}")
    return lines or ["nothing was cut; the index was made anew"]
