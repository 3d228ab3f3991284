"""Modules are short, told in one sentence, and named for what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy.source import PACKAGE, ROOT, SOURCE, Module, modules
from tests.tidy.style import (
    FUNCTION_LINES_MAX,
    MODULE_LINES_MAX,
    clears_before_storing,
    forbidden_names,
    forbidden_words,
    missing_docstring,
    nameless,
    prints,
    too_long,
)

Check = Callable[[Module], list[str]]

MODULES = modules(PACKAGE, SOURCE)
OTHERS = [
    module
    for folder in ("tests", "benchmarks", "examples")
    for module in modules(ROOT / folder, ROOT)
    if not module.name.startswith("tests.tidy.")
]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


@pytest.mark.parametrize(
    "check", [missing_docstring, too_long, nameless, prints, forbidden_names, clears_before_storing]
)
def test_every_module_keeps_the_style(check: Check) -> None:
    assert [found for module in MODULES for found in check(module)] == []


@pytest.mark.parametrize("check", [nameless, forbidden_names])
def test_tests_and_benchmarks_name_things_in_the_same_words(check: Check) -> None:
    assert [found for module in OTHERS for found in check(module)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_speak_the_words_of_the_glossary(document: Path) -> None:
    assert forbidden_words(document.read_text()) == []


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (missing_docstring, "warren.storage.log", "import os"),
        (too_long, "warren.storage.log", "\n" * (MODULE_LINES_MAX + 1)),
        (too_long, "warren.storage.log", "class A:\n  def f(self):\n" + "    pass\n" * FUNCTION_LINES_MAX),
        (nameless, "warren.storage.utils", ""),
        (nameless, "warren.storage.block_helpers", ""),
        (nameless, "warren.queue.manager", ""),
        (prints, "warren.storage.log", "def f():\n    print('here')"),
        (clears_before_storing, "warren.storage.index", "WORD.pack_into(self._map, 24, 1)"),
        (forbidden_names, "warren.storage.segment", ""),
        (forbidden_names, "warren.storage.log", "class LogSegment: ..."),
        (forbidden_names, "warren.storage.log", "def read_chunks(): ..."),
        (forbidden_names, "warren.storage.log", "def read(chunk_size): ..."),
        (forbidden_names, "warren.storage.log", "for chunk in batches: ..."),
        (forbidden_names, "warren.storage.log", "self.segment = 1"),
        (forbidden_names, "warren.storage.log", "import block as segment"),
        (forbidden_names, "warren.storage.log", "def read():\n    '''Read one chunk.'''"),
    ],
)
def test_a_broken_rule_is_found(check: Check, name: str, text: str) -> None:
    assert len(check(Module.of(name, text))) == 1


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (too_long, "warren.storage.log", "class A:\n  def f(self):\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1)),
        (too_long, "warren.storage.log", "\n" * MODULE_LINES_MAX),
        (nameless, "warren.storage.database", ""),
        (prints, "warren.cli.demo", "print('here')"),
        (forbidden_names, "warren.storage.scan", "table.combine_chunks()\nx = array.chunks"),
    ],
)
def test_a_kept_rule_is_not_complained_about(check: Check, name: str, text: str) -> None:
    assert check(Module.of(name, text)) == []


def test_forbidden_words_are_found_in_prose() -> None:
    assert forbidden_words("Segments are cut in CHUNKS; a chunky one is fine.") == ["Segments", "CHUNKS"]
