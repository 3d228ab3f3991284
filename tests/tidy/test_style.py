"""Modules are short, begin with one sentence that says what they are, and are named by a noun."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy.documents import glossary, without_common_words
from tests.tidy.source import PACKAGE, ROOT, SOURCE, Module, modules
from tests.tidy.style import (
    FUNCTION_LINES_MAX,
    MODULE_LINES_MAX,
    clears_before_storing,
    forbidden_names,
    forbidden_words,
    method_names,
    missing_docstring,
    nameless,
    prints,
    replaced_methods,
    too_long,
    without_code,
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
    assert [complaint for module in MODULES for complaint in check(module)] == []


@pytest.mark.parametrize("check", [nameless, forbidden_names])
def test_tests_and_benchmarks_name_things_in_the_same_words(check: Check) -> None:
    assert [complaint for module in OTHERS for complaint in check(module)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_speak_the_words_of_the_glossary(document: Path) -> None:
    text = document.read_text()

    assert forbidden_words(without_common_words(text)) == []


def test_every_word_of_the_glossary_has_code() -> None:
    words = glossary((ROOT / "docs/glossary.md").read_text())

    assert len(words) == len(set(words)) > 40
    assert without_code(words, MODULES) == []


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
        (clears_before_storing, "warren.storage.disk.index", "WORD.pack_into(self._map, 24, 1)"),
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
        (prints, "warren.cli.commands.demo", "print('here')"),
        (forbidden_names, "warren.storage.arrow.scan", "table.combine_chunks()\nx = array.chunks"),
    ],
)
def test_a_kept_rule_is_not_complained_about(check: Check, name: str, text: str) -> None:
    assert check(Module.of(name, text)) == []


@pytest.mark.parametrize(
    "pair", ["block (segment)", "rights (ACLs)", "lease (visibility timeout)", "parked (delayed)", "(consumer group"]
)
def test_a_common_word_is_in_brackets_after_ours_so_that_readers_can_search(pair: str) -> None:
    texts = [re.sub(r"\s", " ", document.read_text()) for document in DOCUMENTS if document.name != "glossary.md"]

    assert any(pair in text for text in texts)


def test_no_method_is_replaced_by_assignment() -> None:
    methods = method_names(MODULES)

    assert {"find_time", "buffer_updated"} <= methods
    assert [complaint for module in MODULES for complaint in replaced_methods(module, methods)] == []


@pytest.mark.parametrize(
    "body",
    [
        "self.scan = log.scan",
        "self.size, self.scan = 1, log.scan",
        "self.close = print",
        "self.file.read = read  # type: ignore[method-assign]",
    ],
)
def test_a_method_that_is_replaced_by_assignment_is_found(body: str) -> None:
    text = f"class View:\n  def __init__(self, log):\n    {body}\n  def close(self): ..."
    methods = method_names([Module.of("warren.storage.log", "class Log:\n  def scan(self): ...")])

    assert len(replaced_methods(Module.of("warren.storage.view", text), methods)) == 1
    assert replaced_methods(Module.of("warren.spark.read.batch_reader", text), methods) == []


@pytest.mark.parametrize(
    "body", ["self.state = 1", "self.end = log.end", "self._scan = log.scan", "self.n = log.scan()"]
)
def test_an_assigned_value_is_not_taken_for_a_method(body: str) -> None:
    view = "@property\n  def state(self): ...\n  @state.setter\n  def state(self, value): ..."
    text = f"class View:\n  def __init__(self, log):\n    {body}\n  {view}"
    log = "class Log:\n  def end(self): ...\n  def scan(self): ...\nclass Range:\n  end: int"

    assert replaced_methods(Module.of("warren.storage.view", text), method_names([Module.of("warren.log", log)])) == []


def test_forbidden_words_are_found_in_prose() -> None:
    assert forbidden_words("Segments are cut in CHUNKS; a chunky one is fine.") == ["Segments", "CHUNKS"]


def test_a_word_of_the_glossary_without_code_is_found() -> None:
    named = [Module.of("warren.queue.leases.dead_letter_views", "class DeadLetters:\n    'No slave.'\nSLAVERY = 1")]

    assert without_code(["dead letter", "slave", "queue"], named) == ["slave"]


def test_words_of_other_systems_stand_only_in_the_brackets_of_the_glossary() -> None:
    document = "A chunk.\n| **block** (segment, chunk) | a segment (chunk) |\n| **a**, **b** | c (chunk) |\n"

    assert glossary(document) == ["block", "a", "b"]
    assert forbidden_words(without_common_words(document)) == ["chunk", "segment", "chunk", "chunk"]
