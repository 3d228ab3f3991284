"""The documents are true: commands exist, examples run, files exist, and the bytes are those of the code."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.documents import (
    Field,
    byte_layout,
    byte_table,
    fenced,
    joined_names,
    make_targets,
    mentioned_paths,
    mentioned_targets,
    missing_paths,
    needs_broker,
    needs_spark,
    rows,
)
from tests.tidy.source import PACKAGE, ROOT, SOURCE
from warren.queue.state import paths
from warren.storage.format import layout

README = (ROOT / "README.md").read_text()
FORMATS = (ROOT / "docs/formats.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def run_example(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def constants(prefix: str) -> list[list[str]]:
    """Returns the values and names of the layout's constants that start with `prefix`, as rows of a table."""
    named = {
        name.removeprefix(prefix).lower(): value for name, value in vars(layout).items() if name.startswith(prefix)
    }
    return [[str(value), name] for name, value in named.items() if name != "count_max"]


def test_the_readme_names_only_targets_that_exist() -> None:
    targets = make_targets((ROOT / "Makefile").read_text())

    assert {"run", "test"} <= mentioned_targets(README) <= targets
    assert {"help", "setup", "run", "test", "check", "format", "bench", "bench-spark", "crash"} <= targets


def test_contributing_states_the_cost_of_every_target() -> None:
    targets = make_targets((ROOT / "Makefile").read_text())
    table = rows((ROOT / "CONTRIBUTING.md").read_text(), "What each target costs", "command", "time")

    assert {command.removeprefix("make ") for command, time in table if time} == targets


ON_SPARK = "spark.md"
"""Its examples build on each other: one test runs them together, with the tests on Spark."""
EXAMPLES = [
    (path.name, example)
    for path in DOCUMENTS
    if path.name != ON_SPARK
    for example in fenced(path.read_text(), "python")
    if not needs_broker(example) and not needs_spark(example)
]


@pytest.mark.parametrize("example", [pytest.param(example, id=name) for name, example in EXAMPLES])
def test_an_example_runs_and_prints(example: str, tmp_path: Path) -> None:
    completed = run_example(example, tmp_path)

    assert (completed.returncode, completed.stderr) == (0, "")
    assert "print(" not in example or completed.stdout


def test_the_first_example_prints_its_comments(tmp_path: Path) -> None:
    completed = run_example(fenced(README, "python")[0], tmp_path)

    assert completed.stdout.splitlines()[0] == "b'10 carrots' b'3 turnips' b'1 leek'"
    assert len(completed.stdout.splitlines()) == 4


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    folders = [ROOT, document.parent, PACKAGE, *(folder for folder in PACKAGE.rglob("*") if folder.is_dir())]

    assert missing_paths(document.read_text(), folders) == []


@pytest.mark.parametrize("title", layout.TABLES)
def test_a_table_of_bytes_is_that_of_the_layout(title: str) -> None:
    struct, fields, start = layout.TABLES[title]

    assert byte_table(FORMATS, title) == byte_layout(struct, tuple(fields.__annotations__), start)


@pytest.mark.parametrize(
    ("title", "column", "prefix"), [("Codecs", "codec", "CODEC_"), ("Sections", "section", "SECTION_")]
)
def test_a_table_of_values_is_that_of_the_layout(title: str, column: str, prefix: str) -> None:
    assert rows(FORMATS, title, "value", column) == constants(prefix)


def test_every_file_of_a_store_is_in_the_list_of_the_formats() -> None:
    (listed,) = fenced(FORMATS.partition("\n## Files of a store\n")[2], "")

    names = joined_names(inspect.getsource(paths))

    assert {"users.json", "rights.json", "security.lock", "broker", ".owner"} <= names
    assert sorted(name for name in names if name not in listed) == []


def test_the_documents_are_found() -> None:
    assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "formats.md", "glossary.md"} <= {
        path.name for path in DOCUMENTS
    }
    assert [(needs_broker(example), needs_spark(example)) for example in fenced(README, "python")] == [
        (False, False),
        (False, False),
        (True, False),
        (True, False),
        (False, True),
    ]


def test_a_missing_target_is_detected() -> None:
    document = "Just `make coffee`, then\n```sh\nmake iced-tea   # and wait\n```\nand make do."

    assert mentioned_targets(document) == {"coffee", "iced-tea"}
    assert make_targets("VENV := .venv\ntest-all: check ## all\n\t@echo tea: hot\n.PHONY: help\n") == {"test-all"}


def test_a_missing_file_is_detected(tmp_path: Path) -> None:
    document = "See `here.py`, `docs/gone.md`, [there](there.md#top) and [away](https://example.org/x.md), not `a.b`."
    (tmp_path / "here.py").touch()

    assert mentioned_paths(document) == ["here.py", "docs/gone.md", "there.md"]
    assert missing_paths(document, [tmp_path]) == ["docs/gone.md", "there.md"]


def test_the_names_that_a_module_joins_are_found_without_variables_and_their_format() -> None:
    source = 'os.path.join(a, "jobs", b + ".lock", f"{first:020d}-{end}.run")\nopen("other")'

    assert joined_names(source) == {"jobs", ".lock", "-", ".run"}


def test_a_failing_example_is_detected(tmp_path: Path) -> None:
    assert run_example("from warren.storage import Logg", tmp_path).returncode == 1


@pytest.mark.parametrize(
    "table",
    [
        "| at | size | field |\n|---|---|---|\n| 0 | 4 | version |\n| 4 | 8 | flag |",
        "| at | size | field |\n|---|---|---|\n| 0 | 4 | version |\n| 8 | 4 | flag |",
        "| at | size | field |\n|---|---|---|\n| 0 | 4 | flag |\n| 4 | 4 | version |",
        "| at | size | field |\n|---|---|---|\n| 0 | 4 | version |",
        "| size | at | field |\n|---|---|---|\n| 0 | 4 | version |\n| 4 | 4 | flag |",
        "no table",
    ],
)
def test_a_wrong_table_of_bytes_is_detected(table: str) -> None:
    right = byte_layout(layout.COLUMNS_HEAD, ("version", "flag"), 0)

    assert right == [Field(0, 4, "version"), Field(4, 4, "flag")]
    assert byte_table(f"# Head\n{table}\n# Other\n", "Head") != right
    assert (
        byte_table("# Head\n| at | size | field |\n|---|---|---|\n| 0 | 4 | `version` |\n| 4 | 4 | flag |", "Head")
        == right
    )


def test_every_decision_has_its_own_number() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "docs/decisions").glob("*.md"))]

    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
