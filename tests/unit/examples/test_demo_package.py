"""The demo as a package: in a clone, in an editable install and in a wheel it is `warren.examples.demo`."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

from tests.tidy.source import PACKAGE, ROOT
from warren.cli.commands import demo
from warren.errors import BadInput
from warren.examples.demo import run
from warren.spark.pipelines.definition import Definition


def test_the_demo_of_the_package_is_the_folder_of_the_examples() -> None:
    linked = PACKAGE / "examples" / "demo"

    assert linked.is_symlink()
    assert linked.resolve() == ROOT / "examples" / "demo"


def test_the_command_finds_the_program_that_it_runs() -> None:
    program = import_module(demo.PROGRAM)

    assert list(inspect.signature(program.main).parameters) == ["orders", "directory", "is_json"]


def test_the_pipeline_of_the_demo_is_found_as_a_resource() -> None:
    definition = Definition.read(str(files("warren.examples.demo") / "revenue.toml"))

    assert (definition.name, definition.sink.topic, definition.dead_letter) == (
        "revenue",
        run.REVENUE_TOPIC,
        run.DEAD_TOPIC,
    )


def test_there_is_one_pipeline_file_of_the_demo() -> None:
    tracked = [path for folder in ("src", "examples") for path in (ROOT / folder).rglob("revenue.toml")]

    assert tracked == [ROOT / "examples" / "demo" / "revenue.toml"]


def test_the_demo_removes_only_a_directory_that_a_demo_made(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    made = Path(run.fresh_directory(str(tmp_path / "made")))
    (made / "old.txt").write_text("old")

    with pytest.raises(BadInput, match="no demo made it"):
        run.fresh_directory(str(other))
    run.fresh_directory(str(made))

    assert (other / "mine.txt").exists()
    assert [path.name for path in made.iterdir()] == [run.MARKER]
