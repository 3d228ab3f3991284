"""`warren quota …`: the quotas of users, clients and addresses at a broker."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer
from rich.console import Console

from warren.broker.quotas.entities import ADDRESS, CLIENT, KEYS, USER, Entity
from warren.broker.quotas.file import QuotasFile, quota_document
from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption, require_store
from warren.cli.output.tables import table, write_json
from warren.cli.running.errors import FailureGroup, fail
from warren.errors import BadInput

app = typer.Typer(
    cls=FailureGroup, help="Set, list and remove quotas of users, clients and addresses.", no_args_is_help=True
)

EVERY: Final = "*"
KEY_WORDS: Final = ", ".join(KEYS)
QuotaUserOption = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="For this user; * for each user without its own quotas.")
]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="ID", help="For this client id; * for each client without its own quotas."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="IP", help="For this address; * for each address without its own quotas."),
]


@app.command("set")
def set_quotas(
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help=f"One or more of: {KEY_WORDS}.")],
    user: QuotaUserOption = None,
    client: Client = None,
    address: Address = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Set quotas. A running broker applies them within half a second."""
    entity = _entity(user, client, address)
    quotas = _file(store).alter([(entity, dict(_value(each) for each in values))])
    if is_json:
        write_json(quota_document(entity, quotas[entity]))
    else:
        typer.echo(f"quotas of {entity}: {_text(quotas[entity])}")


@app.command()
def remove(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="The quotas to remove; all if none is named.")
    ] = None,
    user: QuotaUserOption = None,
    client: Client = None,
    address: Address = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Remove quotas."""
    entity, file = _entity(user, client, address), _file(store)
    quotas = file.read().get(entity, {})
    gone = {key: value for key, value in quotas.items() if not keys or key in keys}
    if not gone:
        fail("there is no such quota; `warren quota list` shows all quotas")
    file.alter([(entity, dict.fromkeys(gone))])
    if is_json:
        write_json(quota_document(entity, gone))
    else:
        typer.echo(f"removed from {entity}: {_text(gone)}")


@app.command("list")
def list_quotas(is_json: AsJson = False, store: StoreOption = STORE_DEFAULT) -> None:
    """Show all quotas."""
    quotas = _file(store).read()
    if is_json:
        write_json([quota_document(entity, values) for entity, values in quotas.items()])
        return
    if not quotas:
        typer.echo("no quotas")
        return
    rows = table("Quotas")
    for name in ("of", "quota", "value"):
        rows.add_column(name, overflow="fold")
    for entity, values in quotas.items():
        for key, value in values.items():
            rows.add_row(str(entity), key, f"{value:g}")
    Console(highlight=False).print(rows)


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in values.items())


def _entity(user: str | None, client: str | None, address: str | None) -> Entity:
    names = {USER: user, CLIENT: client, ADDRESS: address}
    parts = {part: None if name == EVERY else name for part, name in names.items() if name is not None}
    if not parts:
        raise BadInput("name whose quotas: a --user, a --client, both, or an --address")
    return Entity.of(parts)


def _value(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    try:
        return key, float(value)
    except ValueError:
        raise BadInput(f"{text!r}: expected KEY=VALUE, such as producer_byte_rate=1000000") from None


def _file(store: str) -> QuotasFile:
    require_store(store)
    return QuotasFile(os.path.abspath(store))
