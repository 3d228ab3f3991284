"""`warren acl …`: who may do what through a broker of the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from warren.broker.security.rights import (
    CLUSTER_NAME,
    EVERY,
    USER,
    Kind,
    Operation,
    Pattern,
    Permission,
    Right,
    RightsFile,
)
from warren.cli.failure import FailureGroup, fail
from warren.cli.show import table, write_json
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption, require_store
from warren.errors import BadInput

app = typer.Typer(
    cls=FailureGroup, help="Give and take rights to topics, groups and the broker itself.", no_args_is_help=True
)

OPERATIONS: Final = [each.name.lower() for each in Operation if each is not Operation.ANY]

User = Annotated[str, typer.Option("--user", metavar="NAME", help="Whose right it is; * for everybody.")]
Topic = Annotated[list[str] | None, typer.Option(metavar="NAME", help="To this topic; * for all. May be repeated.")]
Group = Annotated[list[str] | None, typer.Option(metavar="NAME", help="To this group; * for all. May be repeated.")]
Transaction = Annotated[list[str] | None, typer.Option("--transaction", metavar="ID", help="To this transactional id.")]
IsCluster = Annotated[bool, typer.Option("--cluster", help="To the broker itself.")]
IsPrefix = Annotated[bool, typer.Option("--prefix", help="To all whose names begin like that.")]
Operations = Annotated[
    list[str], typer.Option("--operation", metavar="OPERATION", help=f"May be repeated: {', '.join(OPERATIONS)}.")
]
IsDenied = Annotated[bool, typer.Option("--deny", help="Forbid it, whatever else is allowed.")]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="From this address only.")]


@app.command()
def add(
    user: User,
    operation: Operations,
    topic: Topic = None,
    group: Group = None,
    transaction: Transaction = None,
    is_cluster: IsCluster = False,
    is_prefix: IsPrefix = False,
    is_denied: IsDenied = False,
    host: Host = EVERY,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Give a right, or with --deny take it from those that are given otherwise."""
    named = _named(topic, group, transaction, is_cluster=is_cluster)
    rights = _rights(named, user, operation, is_prefix=is_prefix, is_denied=is_denied, host=host)
    _file(store).add(rights)
    _show("added", rights, is_json=is_json)


@app.command()
def remove(
    user: User,
    operation: Operations,
    topic: Topic = None,
    group: Group = None,
    transaction: Transaction = None,
    is_cluster: IsCluster = False,
    is_prefix: IsPrefix = False,
    is_denied: IsDenied = False,
    host: Host = EVERY,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Remove a right as it was added."""
    named = _named(topic, group, transaction, is_cluster=is_cluster)
    rights = set(_rights(named, user, operation, is_prefix=is_prefix, is_denied=is_denied, host=host))
    gone = _file(store).remove(lambda right: right in rights)
    if not gone:
        fail("there is no such right; `warren acl list` shows those that are there")
    _show("removed", gone, is_json=is_json)


@app.command("list")
def list_rights(is_json: AsJson = False, store: StoreOption = STORE_DEFAULT) -> None:
    """Show all rights."""
    rights = _file(store).read()
    if is_json:
        write_json([right.to_json() for right in rights])
        return
    if not rights:
        typer.echo("no rights")
        return
    found = table("Rights")
    for name in ("kind", "name", "pattern", "user", "host", "operation", "permission"):
        found.add_column(name, overflow="fold")
    for right in rights:
        shown = right.to_json() | {"principal": right.principal.removeprefix(USER)}
        found.add_row(*(shown[name] for name in Right._fields))
    Console(highlight=False).print(found)


def _show(what: str, rights: Sequence[Right], *, is_json: bool) -> None:
    if is_json:
        write_json([right.to_json() for right in rights])
    else:
        typer.echo(f"{len(rights)} {'right' if len(rights) == 1 else 'rights'} {what}")


def _file(store: str) -> RightsFile:
    require_store(store)
    return RightsFile(os.path.abspath(store))


def _named(
    topics: list[str] | None, groups: list[str] | None, transactions: list[str] | None, *, is_cluster: bool
) -> list[tuple[Kind, str]]:
    given = ((Kind.TOPIC, topics), (Kind.GROUP, groups), (Kind.TRANSACTIONAL_ID, transactions))
    named = [(kind, name) for kind, names in given for name in names or ()]
    if is_cluster:
        named.append((Kind.CLUSTER, CLUSTER_NAME))
    if not named:
        raise BadInput("to what? Name it with --topic, --group, --transaction or --cluster")
    return named


def _rights(
    named: list[tuple[Kind, str]], user: str, operations: list[str], *, is_prefix: bool, is_denied: bool, host: str
) -> list[Right]:
    unknown = [each for each in operations if each.lower() not in OPERATIONS]
    if unknown:
        raise BadInput(f"operation {unknown[0]!r}: expected one of {', '.join(OPERATIONS)}")
    pattern = Pattern.PREFIXED if is_prefix else Pattern.LITERAL
    permission = Permission.DENY if is_denied else Permission.ALLOW
    return [
        Right(kind, name, pattern, USER + user, host, Operation[each.upper()], permission).checked()
        for kind, name in named
        for each in operations
    ]
