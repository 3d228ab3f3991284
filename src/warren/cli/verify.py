"""`warren log verify`: every checksum of a log, behind a progress bar."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.console import Console

from warren.cli.failure import EXIT_FAILED, fail
from warren.cli.rates import progress_bars
from warren.cli.show import size_text, write_json
from warren.cli.target import open_to_read
from warren.errors import CorruptRecord


def verify(path: str, *, is_json: bool) -> None:
    """Read every byte of the log. The first damage ends the program with its place and what is whole before it."""
    console = Console(highlight=False, stderr=is_json)
    with open_to_read(path) as log:
        first = log.first
        checked = first
        with progress_bars(console) as progress:
            task = progress.add_task("checking", total=log.end - first)

            def show(number: int) -> None:
                nonlocal checked
                checked = number
                progress.update(task, completed=max(number - first, 0))

            try:
                found = log.verify(show)
            except CorruptRecord as damage:
                progress.stop()
                if is_json:
                    facts = {"file": damage.path, "position": damage.position, "reason": damage.reason}
                    write_json({"path": path, "is_whole": False, "damage": facts, "messages_before": checked - first})
                    raise typer.Exit(EXIT_FAILED) from None
                place = f"{damage.path} is damaged at byte {damage.position}: {damage.reason}"
                advice = f"`warren log repair {path}` cuts the log there"
                fail(f"{place}; at least {checked - first:,} messages before it are whole; {advice}")
        if is_json:
            write_json({"path": path, "is_whole": True, **asdict(found)})
            return
        blocks = "1 block" if found.blocks == 1 else f"{found.blocks:,} blocks"
        console.print(
            f"[green]whole[/]: {found.messages:,} messages in {found.records:,} records and {blocks}, "
            f"{size_text(found.bytes)}"
        )
        if found.unreadable_count:
            count = "1 batch" if found.unreadable_count == 1 else f"{found.unreadable_count:,} batches"
            console.print(f"[yellow]unreadable records put by a client[/]: {count}, which readers pass over")
        for batch in found.unreadable:
            last = batch.number + batch.message_count - 1
            place = f"messages {batch.number:,} to {last:,}, at byte {batch.position} of {batch.path}"
            console.print(f"  {place}: {batch.reason}", markup=False)
