"""`warren store …`: repairs a store that does not open, or whose transactions do not proceed."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption
from warren.cli.output.tables import table, time_text, write_json
from warren.cli.running.errors import FilesGroup
from warren.errors import BadInput, NotAStore
from warren.queue.state import paths

if TYPE_CHECKING:
    from warren.transaction.salvage import Doubt, Salvaged, StoreDamage

app = typer.Typer(cls=FilesGroup, help="Repair a store.", no_args_is_help=True)


@app.callback()
def store() -> None:
    """Repair a store."""


@app.command()
def repair(
    path: StoreOption = STORE_DEFAULT,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    is_json: AsJson = False,
) -> None:
    """Rebuild a damaged store.json, set a damaged journal of transactions aside, and list transactions in doubt.

    No other program may have the store open. Topics, messages and groups stay as they are, with one exception: messages
    that are held by a transaction whose state is lost are given back and handed out again.
    """
    # Imported here because the other commands do not need transactions.
    from warren.transaction.salvage import Salvage

    _require_directory(path)
    salvage = Salvage(path)
    damage = salvage.find_damage()
    if not is_sure and (damage.settings is not None or damage.journal is not None):
        _confirm(path, damage)
    salvaged = salvage.run()
    if is_json:
        write_json(_to_json(salvaged))
    else:
        _show(Console(highlight=False, soft_wrap=True), salvaged)


def _require_directory(path: str) -> None:
    """Raises NotAStore unless the directory has a store.json, or topics without one."""
    if not os.path.isdir(path):
        raise NotAStore(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    if not any(map(os.path.exists, (paths.store_file(path), paths.topics_directory(path)))):
        raise NotAStore(path, "it has neither a store.json nor topics")


def _confirm(path: str, damage: StoreDamage) -> None:
    if not _is_terminal():
        raise BadInput(f"not a terminal: pass --yes to repair the store {path!r}")
    if damage.settings is not None:
        typer.confirm(f"store.json is damaged ({damage.settings}). Rebuild it?", abort=True, err=True)
    if damage.journal is not None:
        question = (
            f"The journal of transactions is damaged ({damage.journal}). Set it aside? "
            "Interrupted transactions then stay unfinished"
        )
        typer.confirm(question, abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _to_json(salvaged: Salvaged) -> dict[str, Any]:
    journal = salvaged.journal
    return {
        "store_json": None
        if salvaged.store_id is None
        else {"damage": salvaged.damage.settings, "id": salvaged.store_id},
        "journal": None if journal is None else {"damage": salvaged.damage.journal, **dataclasses.asdict(journal)},
        "given_back": [
            {"topic": topic, "group": group, "transactions": count} for topic, group, count in salvaged.given_back
        ],
    }


def _show(console: Console, salvaged: Salvaged) -> None:
    journal = salvaged.journal
    if salvaged.store_id is not None:
        console.print(f"rebuilt store.json ({salvaged.damage.settings}): the id of the store is {salvaged.store_id}")
    if journal is not None:
        console.print(f"set the journal aside ({salvaged.damage.journal}): {journal.path}")
        if not journal.record_count:
            console.print("it is unreadable: any transaction may be in doubt", style="yellow")
        elif journal.doubts:
            console.print(_doubts_table(journal.doubts))
            console.print("these had not ended in the readable part of the journal", style="yellow")
        else:
            console.print("every transaction in its readable part had ended")
        for application, version in journal.applications.items():
            console.print(f"application {application} had reached version {version} in the readable part")
    for topic, group, count in salvaged.given_back:
        holders = "1 transaction" if count == 1 else f"{count:,} transactions"
        console.print(f"gave back the messages of group {group} of {topic} that {holders} held")
    if salvaged.store_id is None and journal is None and not salvaged.given_back:
        console.print("[green]undamaged[/]: there was nothing to repair")


def _doubts_table(doubts: Any) -> Table:
    rows = table("In doubt")
    for column in ("id", "state", "since (UTC)", "messages", "topics", "positions", "acks"):
        rows.add_column(column, overflow="fold")
    for doubt in doubts:
        rows.add_row(*_doubt_row(doubt))
    return rows


def _doubt_row(doubt: Doubt) -> list[str]:
    numbers = doubt.message_count, doubt.position_count, doubt.ack_count
    messages, positions, acks = (f"{number:,}" for number in numbers)
    topics = ", ".join(doubt.topics)
    return [doubt.id, doubt.state, time_text(doubt.when), messages, topics, positions, acks]
