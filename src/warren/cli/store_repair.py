"""`warren store …`: a store that does not open, or whose transactions stand still, made to work again."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from warren.cli.failure import FilesGroup
from warren.cli.show import table, time_text, write_json
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption
from warren.errors import BadInput, NotAStore
from warren.queue import store_paths

if TYPE_CHECKING:
    from warren.transaction.salvage import Damage, Doubt, Salvaged

app = typer.Typer(cls=FilesGroup, help="Mend a store as a whole.", no_args_is_help=True)


@app.callback()
def store() -> None:
    """Mend a store as a whole."""


@app.command()
def repair(
    path: StoreOption = STORE_DEFAULT,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    is_json: AsJson = False,
) -> None:
    """Make a damaged store.json anew, and set a damaged journal of transactions aside; say what was in doubt.

    No other program may have the store open. Topics, messages and groups are not changed, but for messages that a
    transaction held of which nothing is known any more: they are given back, and handed out again.
    """
    # Imported here: the other commands do without transactions.
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
    if not any(map(os.path.exists, (store_paths.store_file(path), store_paths.topics_directory(path)))):
        raise NotAStore(path, "it has neither a store.json nor topics")


def _confirm(path: str, damage: Damage) -> None:
    if not _is_anybody_there():
        raise BadInput(f"stdin is no terminal: give --yes to repair the store {path!r}")
    if damage.settings is not None:
        typer.confirm(f"store.json is damaged ({damage.settings}). Make it anew?", abort=True, err=True)
    if damage.journal is not None:
        question = (
            f"The journal of transactions is damaged ({damage.journal}). Set it aside? "
            "What is not finished of transactions then stays as it is"
        )
        typer.confirm(question, abort=True, err=True)


def _is_anybody_there() -> bool:
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
        console.print(f"made store.json anew ({salvaged.damage.settings}): the id of the store is {salvaged.store_id}")
    if journal is not None:
        console.print(f"set the journal aside ({salvaged.damage.journal}): {journal.path}")
        if not journal.record_count:
            console.print("nothing of it could be read: any transaction may be in doubt", style="yellow")
        elif journal.doubts:
            console.print(_doubts_table(journal.doubts))
            console.print("they had not ended, as far as the journal could be read", style="yellow")
        else:
            console.print("as far as it could be read every transaction had ended")
        for application, version in journal.applications.items():
            console.print(f"application {application} had reached version {version}, as far as that could be read")
    for topic, group, count in salvaged.given_back:
        console.print(f"gave back what {count:,} transactions held of the group {group} of {topic}")
    if salvaged.store_id is None and journal is None and not salvaged.given_back:
        console.print("[green]whole[/]: there was nothing to repair")


def _doubts_table(doubts: Any) -> Table:
    found = table("In doubt")
    for column in ("id", "state", "since (UTC)", "messages", "topics", "positions", "acks"):
        found.add_column(column, overflow="fold")
    for doubt in doubts:
        found.add_row(*_doubt_row(doubt))
    return found


def _doubt_row(doubt: Doubt) -> list[str]:
    numbers = doubt.message_count, doubt.position_count, doubt.ack_count
    messages, positions, acks = (f"{number:,}" for number in numbers)
    topics = ", ".join(doubt.topics)
    return [doubt.id, doubt.state, time_text(doubt.when), messages, topics, positions, acks]
