"""The commands of archives and jobs: what they refuse before Spark is started, and what needs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.archives import archived, verified
from tests.unit.stores import quick_store
from warren.cli.archive_facts import show_run
from warren.cli.main import app
from warren.spark.archive.manifest import load_manifest
from warren.spark.archive.retiring import retire
from warren.spark.archive.running import Archived


def warren(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with quick_store(tmp_path / "s") as opened:
        opened.topic("orders", block_size=4096).put_many([b"x" * 100] * 200)
        archived(tmp_path / "s", tmp_path / "a", "orders")
    return tmp_path / "s"


def test_an_archive_is_listed_without_spark(store: Path) -> None:
    shown = warren("archive", "list", "--archive", store.parent / "a")
    told = json.loads(warren("archive", "list", "--archive", store.parent / "a", "--json").stdout)

    assert shown.exit_code == 0
    assert "orders" in shown.stdout
    assert [(part["topic"], part["messages"], part["end"]) for part in told["partitions"]] == [("orders", 200, 200)]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["archive", "list", "--archive", "nowhere"], 1, "is not an archive: there is no such directory"),
        (["archive", "verify", "--archive", "nowhere"], 1, "`warren archive run` makes one"),
        (["archive", "run", "--keep", "7d"], 2, "give both, or neither"),
        (["archive", "run", "--until", "soon"], 2, "expected a time"),
        (["archive", "run", "--store", "nowhere"], 1, "is not a store"),
        (["stats", "--window", "long"], 2, "expected a duration"),
        (["stats", "--store", "nowhere"], 1, "is not a store"),
        (["replay", "orders", "--into", "x", "--store", "nowhere"], 1, "is not a store"),
        (["compact", "orders", "--into", "x", "--store", "nowhere"], 1, "is not a store"),
        (["dead", "summary", "--store", "nowhere"], 1, "is not a store"),
        (["dead", "redrive", "orders", "--where", "true", "--limit", "1"], 2, "give either --where or --limit"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_is_started(
    arguments: list[str], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = warren(*arguments)

    assert done.exit_code == code
    assert sentence in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_spark_has_a_name_and_a_value(store: Path) -> None:
    done = warren("stats", "--store", store, "--conf", "spark.driver.memory")

    assert done.exit_code == 2
    assert "expected NAME=VALUE" in done.stderr


def test_what_a_run_did_is_shown(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = store.parent / "a"
    manifest = load_manifest(str(archive))
    done = Archived(number=1, files=manifest.files, seconds=2.0)
    (archive / manifest.files[0].path).unlink()
    checked = verified(store, archive)

    show_run(done, checked, retire(str(store), checked), "a", is_json=False)
    shown = capsys.readouterr().out
    show_run(done, checked, [], "a", is_json=True)
    told = json.loads(capsys.readouterr().out)

    assert "200 messages archived to a in 2.0 s (100/s): 1 file," in shown
    assert "wrong" in shown
    assert "the file is missing" in " ".join(shown.split())
    assert told["verification"]["good"] is False
    assert told["messages"] == 200
    show_run(Archived(number=1, files=[], seconds=0.1), None, None, "a", is_json=False)
    assert "nothing new" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["archive", "run"],
        ["archive", "verify"],
        ["stats"],
        ["replay"],
        ["compact"],
        ["dead", "summary"],
        ["dead", "redrive"],
    ],
)
def test_help_has_examples(command: list[str]) -> None:
    done = warren(*command, "--help")

    assert done.stdout.count(f"warren {' '.join(command)}") >= 2
