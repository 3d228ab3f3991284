"""`warren acl …`: the rights (ACLs) of users of a broker."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from warren.broker.security.rights import (
    CLUSTER_NAME,
    EVERY,
    USER,
    Operation,
    Pattern,
    Permission,
    ResourceKind,
    Right,
    RightsFile,
)
from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.option_set import OptionSet
from warren.cli.options.store_option import AsJson, StoreOption, require_store
from warren.cli.output.tables import table, write_json
from warren.cli.running.errors import FailureGroup, fail
from warren.errors import BadInput

app = typer.Typer(cls=FailureGroup, help="Add, remove and list the rights (ACLs) of users.", no_args_is_help=True)

OPERATIONS: Final = [each.name.lower() for each in Operation if each is not Operation.ANY]

RightUserOption = Annotated[
    str, typer.Option("--user", metavar="NAME", help="The user that has the right; * for all users.")
]
TopicOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A right to this topic; * for all. May be repeated.")
]
GroupOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A right to this group; * for all. May be repeated.")
]
TransactionOption = Annotated[
    list[str] | None,
    typer.Option("--transaction", metavar="ID", help="A right to this transactional id. May be repeated."),
]
IsCluster = Annotated[bool, typer.Option("--cluster", help="A right to the broker itself.")]
IsPrefix = Annotated[
    bool, typer.Option("--prefix", help="A right to all resources whose names begin with the given names.")
]
Operations = Annotated[
    list[str], typer.Option("--operation", metavar="OPERATION", help=f"May be repeated: {', '.join(OPERATIONS)}.")
]
IsDenied = Annotated[bool, typer.Option("--deny", help="Forbid it, even if another right allows it.")]
HostOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Only from this address.")]


def rights_of(
    *,
    user: str,
    operation: list[str],
    topic: list[str] | None,
    group: list[str] | None,
    transaction: list[str] | None,
    is_cluster: bool,
    is_prefix: bool,
    is_denied: bool,
    host: str,
) -> list[Right]:
    """Returns one right for each resource and operation that the options name."""
    unknown = [each for each in operation if each.lower() not in OPERATIONS]
    if unknown:
        raise BadInput(f"operation {unknown[0]!r}: expected one of {', '.join(OPERATIONS)}")
    names = ((ResourceKind.TOPIC, topic), (ResourceKind.GROUP, group), (ResourceKind.TRANSACTIONAL_ID, transaction))
    resources = [(kind, name) for kind, some in names for name in some or ()]
    if is_cluster:
        resources.append((ResourceKind.CLUSTER, CLUSTER_NAME))
    if not resources:
        raise BadInput("name what the right is for: --topic, --group, --transaction or --cluster")
    pattern = Pattern.PREFIXED if is_prefix else Pattern.LITERAL
    permission = Permission.DENY if is_denied else Permission.ALLOW
    return [
        Right(kind, name, pattern, USER + user, host, Operation[each.upper()], permission).checked()
        for kind, name in resources
        for each in operation
    ]


with_rights: Final = OptionSet(
    options={
        "user": (RightUserOption, inspect.Parameter.empty),
        "operation": (Operations, inspect.Parameter.empty),
        "topic": (TopicOption, None),
        "group": (GroupOption, None),
        "transaction": (TransactionOption, None),
        "is_cluster": (IsCluster, False),
        "is_prefix": (IsPrefix, False),
        "is_denied": (IsDenied, False),
        "host": (HostOption, EVERY),
    },
    value_of=rights_of,
).as_parameter("rights")
"""Decorates a command: its parameter `rights` holds the rights that the options describe."""


@app.command()
@with_rights
def add(
    rights: list[Right],
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Add a right, or with --deny forbid what other rights allow."""
    _file(store).add(rights)
    _show("added", rights, is_json=is_json)


@app.command()
@with_rights
def remove(
    rights: list[Right],
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Remove a right. Name it with the same options as when it was added."""
    named = set(rights)
    gone = _file(store).remove(lambda right: right in named)
    if not gone:
        fail("there is no such right; `warren acl list` shows all rights")
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
    rows = table("Rights")
    for name in ("kind", "name", "pattern", "user", "host", "operation", "permission"):
        rows.add_column(name, overflow="fold")
    for right in rights:
        cells = right.to_json() | {"principal": right.principal.removeprefix(USER)}
        rows.add_row(*(cells[name] for name in Right._fields))
    Console(highlight=False).print(rows)


def _show(what: str, rights: Sequence[Right], *, is_json: bool) -> None:
    if is_json:
        write_json([right.to_json() for right in rights])
    else:
        typer.echo(f"{len(rights)} {'right' if len(rights) == 1 else 'rights'} {what}")


def _file(store: str) -> RightsFile:
    require_store(store)
    return RightsFile(os.path.abspath(store))
