"""The documents and the source are in plain English. Their lines are short."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tidy.english import (
    IDIOMS,
    LINE_SIZE_MAX,
    SOURCE_DIALECT,
    dialect_words,
    forbidden_words,
    idioms,
    long_lines,
    odd_test_names,
)
from tests.tidy.source import PACKAGE, ROOT, SOURCE, modules

DOCUMENTS: Final = {
    str(path.relative_to(ROOT)): path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
}
MODULES: Final = modules(PACKAGE, SOURCE)
TEXTS: Final = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in ("tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    # These two name the forbidden words.
    if path.stem not in ("english", "test_english")
}
"""The Python files of tests, benchmarks and examples."""


@pytest.mark.parametrize("package", sorted({module.layer or "warren" for module in MODULES}))
def test_a_package_is_in_plain_english(package: str) -> None:
    texts = [module for module in MODULES if (module.layer or "warren") == package]
    words = [word for module in texts for word in forbidden_words(module.name, module.text, SOURCE_DIALECT)]

    assert words == []


@pytest.mark.parametrize("folder", sorted({"/".join(name.split("/")[:-1][:2]) for name in TEXTS}))
def test_tests_benchmarks_and_examples_are_in_plain_english(folder: str) -> None:
    texts = {name: text for name, text in TEXTS.items() if "/".join(name.split("/")[:-1][:2]) == folder}
    words = [word for name, text in texts.items() for word in forbidden_words(name, text)]

    assert not words


@pytest.mark.parametrize("package", sorted({module.layer or "warren" for module in MODULES}))
def test_a_package_has_no_idioms(package: str) -> None:
    texts = [module for module in MODULES if (module.layer or "warren") == package]

    assert [word for module in texts for word in forbidden_words(module.name, module.text, IDIOMS)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_no_idioms(name: str) -> None:
    assert idioms(DOCUMENTS[name].read_text()) == []


def test_names_of_tests_are_in_plain_english() -> None:
    assert [name for text in TEXTS.values() for name in odd_test_names(text)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_in_plain_english(name: str) -> None:
    assert dialect_words(DOCUMENTS[name].read_text()) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_line_of_prose_is_short(name: str) -> None:
    assert long_lines(DOCUMENTS[name].read_text()) == []


def test_the_dialect_is_detected() -> None:
    document = (
        "Whoever asks is told; None where there is none.\n| a | nobody |\n`told`\n```sh\nnobody\n```\nWhere it is."
    )

    assert dialect_words(document) == ["whoever", "told", "where there is", "nobody"]


def test_a_forbidden_word_is_detected_in_comments_and_strings_only() -> None:
    text = 'told = 1  # Nobody is asked.\n"""What is `told`, and looked into."""\nraise ValueError("whoever")\n'

    assert forbidden_words("warren.a", text) == [
        "warren.a:1 nobody",
        "warren.a:2 looked into",
        "warren.a:3 whoever",
    ]


def test_the_dialect_is_detected_in_the_source() -> None:
    text = '"""Everybody reads it anew; None where\n    there is none."""\nanew = 1\n'

    assert forbidden_words("warren.a", text, SOURCE_DIALECT) == [
        "warren.a:1 everybody",
        "warren.a:1 anew",
        "warren.a:1 where there is",
    ]


def test_an_idiom_is_detected() -> None:
    text = '"""Wakes it at once; the log goes\n    on."""\nat_once = 1\n'

    assert forbidden_words("warren.a", text, IDIOMS) == ["warren.a:1 at once", "warren.a:1 goes on"]
    assert idioms("It goes on for ever.\n`at once`\n") == ["goes on", "for ever"]


def test_a_test_name_in_dialect_is_detected() -> None:
    text = "def test_what_is_put_is_there(): ...\ndef test_nobody_waits(): ...\n    def test_a_put_is_stored(): ...\n"

    assert odd_test_names(text) == ["test_what_is_put_is_there", "test_nobody_waits"]


def test_a_long_line_is_detected() -> None:
    line = "a" * (LINE_SIZE_MAX + 1)

    assert long_lines(f"{line[1:]}\n| {line} |\n```\n{line}\n```\n- {line}") == [f"- {line}"[:60]]
