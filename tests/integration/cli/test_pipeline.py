from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import warren
from warren.cli.main import app
from warren.cli.output.pipeline_watch import line
from warren.spark.pipelines.progress import Progress

FILE = """
[pipeline]
name = "revenue"
trigger = "continuous"

[source]
topics = ["orders"]
format = "json"
schema = "id long"

[[step]]
dead_letter = "orders.dead"

[[step]]
python = "steps:enrich"

[[step]]
sql = '''
select *
from input'''

[sink]
topic = "revenue"
format = "json"
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], env={"COLUMNS": "200", "WARREN_STORE": ""})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE)
    (tmp_path / "steps.py").write_text("def enrich(frame):\n    return frame\n")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with warren.open(tmp_path / "store") as opened:
        opened.topic("orders")
    return tmp_path / "store"


def test_check_shows_the_plan_of_a_file(file: Path, store: Path) -> None:
    result = run("check", file, "--store", store)
    facts = json.loads(run("check", file, "--store", store, "--json").stdout)

    assert result.exit_code == 0
    assert "orders, as json, from earliest" in result.stdout
    assert facts == {
        "file": str(file),
        "store": str(store),
        "checkpoint": str(store / "pipelines" / "revenue" / "checkpoint"),
        "trigger": "continuous",
        "reads": "orders, as json, from earliest",
        "group": "revenue",
        "steps": ["dead_letter: orders.dead", "python: steps:enrich", "sql: select * from input"],
        "writes": "topic revenue",
    }


def test_a_file_that_is_wrong_is_one_line_with_the_key(file: Path) -> None:
    file.write_text(FILE.replace("topics", "topcis"))

    for command in ("check", "run"):
        result = run(command, file)

        assert result.exit_code == 2
        assert result.stderr == f"{file}: source.topcis: there is no such key; did you mean 'topics'?\n"


def test_running_needs_a_store_and_makes_none(file: Path, tmp_path: Path) -> None:
    result = run("run", file, "--store", tmp_path / "none")

    assert result.exit_code == 1
    assert "is not a store" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("arguments", [["--trigger", "soon"], ["--conf", "spark.x"]])
def test_an_option_that_makes_no_sense_is_refused(file: Path, store: Path, arguments: list[str]) -> None:
    result = run("run", file, "--store", store, *arguments)

    assert result.exit_code == 2
    assert "expected" in result.stderr


def test_submit_prints_a_command_that_ships_all_that_is_needed(file: Path, store: Path) -> None:
    pytest.importorskip("pyspark")

    conf = ["--conf", "spark.files=/etc/hosts", "--trigger", "available-now", "--deploy-mode", "client"]
    result = run("submit", file, "--master", "spark://host:7077", "--store", store, *conf, "--print")

    words = result.stdout.split()
    package = words[words.index("--py-files") + 1]
    assert result.exit_code == 0
    assert words[0].endswith("spark-submit")
    assert words[words.index("--master") + 1] == "spark://host:7077"
    assert f"spark.files=/etc/hosts,{file},{file.parent / 'steps.py'}" in words
    assert words[-8].endswith("job.py")
    assert words[-7:] == [
        file.name,
        "--store",
        str(store),
        "--trigger",
        "available-now",
        "--directory",
        str(file.parent),
    ]
    assert "warren/spark/pipelines/job.py" in zipfile.ZipFile(package).namelist()


def test_a_line_says_how_far_a_pipeline_came() -> None:
    progress = Progress(batch=3, messages=1_234_567, messages_per_s=85_123.4, behind=12, batch_s=1.23, time="t")

    assert line("p", progress) == "p: 1,234,567 messages, 85,123/s, 12 behind, batch 3 took 1.2 s"
    assert line("p", Progress(messages=1, time="t")) == "p: 1 message, 0/s, batch -1 took 0.0 s"
    assert line("p", Progress()) == "p: nothing read"
