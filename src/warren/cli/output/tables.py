"""Tables and units for the terminal. Tables fit 80 columns, and show more if the terminal is wider."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warren.cli.options.log_option import ReaderInfo
from warren.storage.check.inspection import BlockInfo, LogInfo
from warren.storage.disk.index import FIRST_KEY

WIDE: Final = 110
STATES: Final[Mapping[str, str]] = {"clean": "closed cleanly", "open": "open, or left by a crash"}
BODY_SHOWN_MAX: Final = 200
"""How many bytes of a body a cell of a table may show."""
SIZE_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(size: int) -> str:
    """Returns `size` bytes in the most readable unit."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.0f} {SIZE_UNITS[unit]}" if unit == 0 else f"{value:,.1f} {SIZE_UNITS[unit]}"


def time_text(timestamp: int) -> str:
    """Returns `timestamp` in UTC, to the second, or a dash if there is none."""
    return datetime.fromtimestamp(timestamp // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S") if timestamp else "–"


def span_text(microseconds: int) -> str:
    """Returns a duration in the most readable unit."""
    seconds = microseconds / 1_000_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def duration_text(seconds: float) -> str:
    """Returns a duration that a user set, in the largest unit in which it is a whole number."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,g} s"


def write_json(document: object) -> None:
    """Writes one JSON document to stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def shortened(text: str) -> Text:
    """Returns `text` for a cell of one line, which is cut first if the terminal is narrow."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def table(title: str) -> Table:
    """Returns an empty table in the style of all commands."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def show_log(console: Console, info: LogInfo, readers: Sequence[ReaderInfo]) -> None:
    """Shows the index, the blocks and the readers of a log."""
    is_wide = console.width >= WIDE
    console.print(_index_table(info), "")
    console.print(_blocks_table(info.blocks, is_wide=is_wide) if info.blocks else Text("no blocks", style="dim"), "")
    console.print(_readers_table(readers) if readers else Text("no readers", style="dim"))


def _index_table(info: LogInfo) -> Table:
    size = sum(block.file_size or 0 for block in info.blocks)
    facts = {
        "path": info.path,
        "version": str(info.version),
        "state": STATES.get(info.state, info.state) + (f"; process {info.writing} is writing" if info.writing else ""),
        "messages": _range_text(info.first, info.end),
        "synced": f"below {info.synced:,}",
        "blocks": f"{len(info.blocks)}, {size_text(size)} on disk; the index has {info.max_block_count} slots",
        "flag": str(info.flag),
        **{key: _extension_text(key, value) for key, value in info.extension.items()},
    }
    rows = table("Index")
    rows.show_header = False
    rows.add_column(style="dim")
    rows.add_column(overflow="fold")
    for name, value in facts.items():
        rows.add_row(name, Text(value))
    return rows


def _extension_text(key: str, value: str) -> str:
    if key == FIRST_KEY:
        return f"{value.partition(' ')[0]}; earlier messages are deleted"
    return f"{time_text(int(value))} UTC" if key == "created" and value.isdecimal() else value


def _range_text(first: int, end: int) -> str:
    return f"{end - first:,} ({first:,} to {end - 1:,})" if end > first else f"none; the next one is {end:,}"


def _blocks_table(blocks: Sequence[BlockInfo], *, is_wide: bool) -> Table:
    rows = table("Blocks")
    for name in ("block", "first", "messages", "size"):
        rows.add_column(name, justify="right")
    rows.add_column("created (UTC)", no_wrap=True)
    rows.add_column("span", justify="right")
    rows.add_column("state")
    if is_wide:
        rows.add_column("file")
    for block in blocks:
        cells = [
            str(block.number),
            f"{block.base_number:,}",
            f"{block.end_number - block.base_number:,}",
            "missing" if block.file_size is None else size_text(block.file_size),
            time_text(block.created),
            span_text(max(0, block.updated - block.created)),
            "sealed" if block.is_sealed else "last",
        ]
        rows.add_row(*cells, *([os.path.basename(block.path)] if is_wide else []))
    return rows


def _readers_table(readers: Sequence[ReaderInfo]) -> Table:
    rows = table("Readers")
    rows.add_column("reader", overflow="fold")
    rows.add_column("filter", overflow="fold")
    rows.add_column("next", justify="right")
    rows.add_column("behind", justify="right")
    for reader in readers:
        if reader.damage is not None:
            rows.add_row(Text(reader.name), Text(f"damaged: {reader.damage}", style="red"), "–", "–")
        else:
            tag = Text(reader.tag) if reader.tag is not None else Text("every message", style="dim")
            rows.add_row(Text(reader.name), tag, f"{reader.position:,}", f"{reader.behind:,}")
    return rows
