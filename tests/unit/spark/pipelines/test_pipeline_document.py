from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tidy.documents import fenced, rows
from tests.tidy.source import ROOT
from warren.spark.pipelines.definition import SECTIONS, Definition

DOCUMENT = (ROOT / "docs/pipelines.md").read_text()


def default_cell(default: Any) -> str:
    return "" if default in (None, "", ()) else str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_table_of_keys_is_that_of_the_code(section: str) -> None:
    documented = rows(DOCUMENT, f"Keys of {section}", "key", "default", "meaning")
    # A cell that begins or ends with code loses its quotes when it is read.
    expected = [
        [each.name, default_cell(each.default), each.description.strip(" `")] for each in SECTIONS[section].values()
    ]
    assert documented == expected


@pytest.mark.parametrize("example", fenced(DOCUMENT, "toml"))
def test_an_example_of_the_document_is_a_pipeline(example: str, tmp_path: Path) -> None:
    file = tmp_path / "example.toml"
    file.write_text(example)

    assert Definition.read(file).steps


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/*.toml")), ids=lambda path: path.name)
def test_a_pipeline_of_the_examples_is_one(path: Path) -> None:
    assert Definition.read(path).name
