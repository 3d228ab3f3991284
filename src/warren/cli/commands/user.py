"""`warren user …`: the users that may connect to a broker."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from warren.broker.security.users import PASSWORD_SIZE_MAX, Users
from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption, make_store, require_store
from warren.cli.output.tables import write_json
from warren.cli.running.errors import FailureGroup

app = typer.Typer(cls=FailureGroup, help="Create, list and delete the users of a broker.", no_args_is_help=True)

UserArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.", show_default=False)]
PasswordFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A file whose first line is the password; without it a prompt, or stdin."),
]
Replaces = Annotated[bool, typer.Option("--replace", help="Change the password of an existing user.")]


@app.command()
def create(
    name: UserArgument,
    password_file: PasswordFile = None,
    replaces: Replaces = False,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Create a user, and the store if it does not exist. Stores only SCRAM keys of the password."""
    make_store(store)
    _users(store).create(name, _password(password_file), replaces=replaces)
    _show({"user": name, "may_connect": True}, f"user {name} may connect", is_json=is_json)


@app.command("list")
def list_users(is_json: AsJson = False, store: StoreOption = STORE_DEFAULT) -> None:
    """Show the names of the users."""
    names = _users(store).names()
    if is_json:
        write_json(names)
    else:
        typer.echo("\n".join(names) or "no users")


@app.command()
def delete(name: UserArgument, is_json: AsJson = False, store: StoreOption = STORE_DEFAULT) -> None:
    """Delete a user. A running broker closes the connections that the user has open."""
    _users(store).delete(name)
    _show({"user": name, "may_connect": False}, f"user {name} may no longer connect", is_json=is_json)


def _show(facts: dict[str, object], sentence: str, *, is_json: bool) -> None:
    if is_json:
        write_json(facts)
    else:
        typer.echo(sentence)


def _users(store: str) -> Users:
    require_store(store)
    return Users(os.path.abspath(store))


def _password(path: str | None) -> str:
    if path is not None:
        with open(path, encoding="utf-8") as file:
            return file.readline(PASSWORD_SIZE_MAX + 2).rstrip("\r\n")
    if not sys.stdin.isatty():
        return sys.stdin.readline(PASSWORD_SIZE_MAX + 2).rstrip("\r\n")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
