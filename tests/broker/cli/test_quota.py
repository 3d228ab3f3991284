"""`warren quota`: sets, lists and removes quotas in the files of the store."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import warren
from tests.support.broker.process import run_warren as run_in
from warren.broker.quotas.entities import DEFAULT, Entity
from warren.broker.quotas.file import QuotasFile


def run_warren(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_in(*arguments, folder=Path(arguments[-1]).parent)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    warren.open(tmp_path / "data").close()
    return tmp_path / "data"


def test_quotas_are_set_listed_and_removed(store: Path) -> None:
    where = ("--store", str(store))
    completed = run_warren("quota", "set", "producer_byte_rate=1000", "topics_max=3", "--user", "ann", *where)
    as_json = run_warren("quota", "set", "request_rate=5", "--user", "*", "--client", "app", "--json", *where)
    listed = json.loads(run_warren("quota", "list", "--json", *where).stdout)
    table = run_warren("quota", "list", *where).stdout
    run_warren("quota", "remove", "topics_max", "--user", "ann", *where)
    run_warren("quota", "remove", "--user", "*", "--client", "app", "--json", *where)

    assert "producer_byte_rate=1000" in completed.stdout
    assert json.loads(as_json.stdout) == {"user": None, "client-id": "app", "quotas": {"request_rate": 5.0}}
    assert {"user": "ann", "quotas": {"producer_byte_rate": 1000.0, "topics_max": 3.0}} in listed
    assert "user (default), client-id app" in " ".join(table.split())
    assert QuotasFile(str(store)).read() == {Entity("ann"): {"producer_byte_rate": 1000.0}}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "producer_byte_rate=1"), "name whose quotas"),
        (("set", "producer_byte_rate=many", "--user", "ann"), "expected KEY=VALUE"),
        (("set", "speed=1", "--user", "ann"), "there is no quota 'speed'"),
        (("set", "producer_byte_rate=1", "--address", "10.0.0.1"), "is a quota of"),
        (("remove", "--user", "ann"), "there is no such quota"),
    ],
)
def test_a_bad_quota_is_one_sentence_and_changes_nothing(
    store: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    QuotasFile(str(store)).alter([(Entity(DEFAULT), {"request_rate": 1.0})])
    completed = run_warren("quota", *arguments, "--store", str(store))

    assert completed.returncode != 0
    assert sentence in " ".join(completed.stderr.split())
    assert QuotasFile(str(store)).read() == {Entity(DEFAULT): {"request_rate": 1.0}}
