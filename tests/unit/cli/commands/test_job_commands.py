"""The commands of archives and jobs: what they refuse before Spark is started, and what needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import warren.spark as warren_spark
import warren.spark.archive as archive_job
import warren.spark.jobs.compact as compact_job
import warren.spark.jobs.dead_letters as letters_job
import warren.spark.jobs.replay as replay_job
from tests.support.spark.archives import archived, verified
from tests.support.store.stores import quick_store
from warren.cli.main import app
from warren.cli.output.archive_tables import show_run
from warren.spark.archive.manifest import load_manifest
from warren.spark.archive.retire import retire
from warren.spark.archive.run import Archived
from warren.spark.jobs.dead_letters import Reason


def warren(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with quick_store(tmp_path / "s") as opened:
        opened.topic("orders", block_size=4096).put_many([b"x" * 100] * 200)
        archived(tmp_path / "s", tmp_path / "a", "orders")
    return tmp_path / "s"


def test_an_archive_is_listed_without_spark(store: Path) -> None:
    result = warren("archive", "list", "--archive", store.parent / "a")
    report = json.loads(warren("archive", "list", "--archive", store.parent / "a", "--json").stdout)

    assert result.exit_code == 0
    assert "orders" in result.stdout
    assert [(part["topic"], part["messages"], part["end"]) for part in report["partitions"]] == [("orders", 200, 200)]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["archive", "list", "--archive", "nowhere"], 1, "is not an archive: there is no such directory"),
        (["archive", "verify", "--archive", "nowhere"], 1, "`warren archive run` creates one"),
        (["archive", "run", "--keep", "7d"], 2, "--keep can only be used with --then-retire"),
        (["archive", "run", "--until", "soon"], 2, "expected a time"),
        (["archive", "run", "--store", "nowhere"], 1, "is not a store"),
        (["stats", "--window", "long"], 2, "expected a duration"),
        (["stats", "--store", "nowhere"], 1, "is not a store"),
        (["replay", "orders", "--into", "x", "--store", "nowhere"], 1, "is not a store"),
        (["compact", "orders", "--into", "x", "--store", "nowhere"], 1, "is not a store"),
        (["dead", "summary", "--store", "nowhere"], 1, "is not a store"),
        (["dead", "redrive", "orders", "--where", "true", "--limit", "1"], 2, "pass either --where or --limit"),
    ],
)
def test_bad_arguments_are_refused_before_spark_starts(
    arguments: list[str], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = warren(*arguments)

    assert result.exit_code == code
    assert sentence in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_spark_has_a_name_and_a_value(store: Path) -> None:
    result = warren("stats", "--store", store, "--conf", "spark.driver.memory")

    assert result.exit_code == 2
    assert "expected NAME=VALUE" in result.stderr


def test_the_result_of_a_run_is_printed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = store.parent / "a"
    manifest = load_manifest(str(archive))
    run = Archived(number=1, files=manifest.files, seconds=2.0)
    (archive / manifest.files[0].path).unlink()
    checked = verified(store, archive)

    show_run(run, checked, retire(str(store), checked), "a", is_json=False)
    output = capsys.readouterr().out
    show_run(run, checked, [], "a", is_json=True)
    report = json.loads(capsys.readouterr().out)

    assert "200 messages archived to a in 2.0 s (100/s): 1 file," in output
    assert "wrong" in output
    assert "the file is missing" in " ".join(output.split())
    assert report["verification"]["good"] is False
    assert report["messages"] == 200
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
    result = warren(*command, "--help")

    assert result.stdout.count(f"warren {' '.join(command)}") >= 2


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands get a session that does nothing, and jobs that run here."""
    monkeypatch.setattr(
        warren_spark, "session", lambda *arguments: SimpleNamespace(stop=lambda: None, _jsparkSession=None)
    )
    monkeypatch.setattr(
        archive_job, "verify", lambda spark, archive, store, *arguments, **named: verified(store, Path(archive))
    )
    monkeypatch.setattr(archive_job, "archive", lambda *arguments, **named: Archived(number=1, files=[], seconds=1.0))


@pytest.mark.usefixtures("without_spark")
def test_verify_exits_with_1_if_something_is_wrong(store: Path) -> None:
    archive = store.parent / "a"
    good = warren("archive", "verify", "--archive", archive, "--store", store)
    (archive / load_manifest(str(archive)).files[0].path).unlink()

    bad = warren("archive", "verify", "--archive", archive, "--store", store)
    report = warren("archive", "verify", "--archive", archive, "--without-store", "--json")

    assert (good.exit_code, bad.exit_code, report.exit_code) == (0, 1, 1)
    assert "good" in good.stdout
    assert "Differences" in bad.stdout
    assert json.loads(report.stdout)["findings"][0]["reason"] == "the file is missing"


@pytest.mark.usefixtures("without_spark")
def test_a_run_that_retires_reports_it_and_fails_if_the_verification_fails(store: Path) -> None:
    archive = store.parent / "a"
    arguments = ["archive", "run", "orders", "--archive", archive, "--store", store, "--then-retire"]
    with_keep = warren(*arguments, "--keep", "1d", "--json")
    gone = warren(*arguments)
    (archive / load_manifest(str(archive)).files[0].path).unlink()

    bad = warren(*arguments)

    assert (with_keep.exit_code, gone.exit_code, bad.exit_code) == (0, 0, 1)
    assert json.loads(with_keep.stdout)["retired"][0]["first"] == 0
    assert "Retired from the log" in gone.stdout
    assert "wrong" in bad.stdout


@pytest.mark.usefixtures("without_spark")
def test_jobs_report_their_results(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([(5, False), (0, True), (3, False), (0, True)])

    def job(*arguments: object, **named: object) -> SimpleNamespace:
        messages, was_done = next(outcomes)
        return SimpleNamespace(messages=messages, was_done=was_done)

    monkeypatch.setattr(replay_job, "replay", job)
    monkeypatch.setattr(compact_job, "compact", job)
    reason = Reason(topic="orders", group="g", reason="late", letters=7, attempts_max=2, first_us=1, last_us=10**15)
    monkeypatch.setattr(letters_job, "summary", lambda *arguments, **named: [reason])

    replayed = [warren("replay", "orders", "--into", "x", "--name", "n", "--store", store) for _ in range(2)]
    compacted = [warren("compact", "orders", "--into", "x", "--store", store) for _ in range(2)]
    summed = warren("dead", "summary", "--store", store)

    assert "5 messages of orders put into x" in replayed[0].stdout
    assert "put nothing: 'n' was replayed into x before" in replayed[1].stdout
    assert "3 messages of orders put into x" in compacted[0].stdout
    assert "put nothing: orders was compacted into x before" in compacted[1].stdout
    assert "late" in summed.stdout
    assert json.loads(warren("dead", "summary", "--store", store, "--json").stdout)[0]["letters"] == 7
