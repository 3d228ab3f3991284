"""Commands of users without rights are refused, and one sentence names all missing rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.broker.tenants import PASSWORD, USER, Tenants, Thing, tenants
from warren.broker.security.rights import Operation, ResourceKind
from warren.cli.main import app


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Tenants]:
    with tenants(tmp_path / "data") as made:
        yield made


def run(world: Tenants, *arguments: str) -> Result:
    environment = {"COLUMNS": "120", "WARREN_USER": USER, "WARREN_PASSWORD": PASSWORD}
    return CliRunner().invoke(app, [*arguments, "--server", world.http.running.address], env=environment)


@pytest.mark.parametrize("operations", [(), (Operation.DESCRIBE,), (Operation.WRITE,)])
def test_a_refused_put_names_all_rights_together_and_makes_nothing(
    world: Tenants, operations: tuple[Operation, ...]
) -> None:
    world.allow([Thing(operation, ResourceKind.TOPIC, "orders") for operation in operations])

    refused = run(world, "put", "orders", "a")
    world.allow([Thing(each, ResourceKind.TOPIC, "orders") for each in (Operation.WRITE, Operation.CREATE)])
    result = run(world, "put", "orders", "a")

    assert refused.exit_code == 1
    assert len(refused.stderr.splitlines()) == 1
    assert "warren acl add --user ann --topic orders --operation write --operation create" in refused.stderr
    assert "created the topic" not in refused.stderr
    assert result.exit_code == 0
    assert "created the topic orders" in result.stderr


def test_a_read_of_an_empty_topic_needs_the_right_to_read(world: Tenants) -> None:
    world.broker.store.topic("orders")
    world.allow([Thing(Operation.DESCRIBE, ResourceKind.TOPIC, "orders")])

    refused = run(world, "read", "orders")
    world.allow([Thing(Operation.READ, ResourceKind.TOPIC, "orders")])
    empty = run(world, "read", "orders")

    assert refused.exit_code == 1
    assert "may not read topic 'orders'" in refused.stderr
    assert (empty.exit_code, empty.stdout) == (0, "")


def test_the_help_of_user_delete_mentions_open_connections() -> None:
    result = CliRunner().invoke(app, ["user", "delete", "--help"], env={"COLUMNS": "120"})

    assert "closes the connections that the user has open" in " ".join(result.stdout.split())
