"""The reference and the site show the whole public interface, without mkdocs: `make docs` builds them."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getsource
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

import warren.aio
import warren.errors
from tests.tidy.source import ROOT

PAGES = sorted((ROOT / "docs/api").glob("*.md"))
SHOWN = re.compile(r"^::: ([\w.]+)\n(?:    options:\n((?:      .*\n)*))?", re.MULTILINE)
HOOKS = run_path(str(ROOT / "docs/site_hooks.py"))


def documented_members() -> dict[str, set[str]]:
    """Returns the objects in the reference, and the members of each that it names; none means all of them."""
    text = "".join(f"{page.read_text()}\n" for page in PAGES)
    return {path: set(re.findall(r"^        - (\w+)$", options, re.MULTILINE)) for path, options in SHOWN.findall(text)}


def resolved(path: str) -> Any:
    """Returns the object at the dotted `path`: a module, or an object in one."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except AttributeError:
        return import_module(path)


def public(subject: object) -> set[str]:
    return {name for name in dir(subject) if not name.startswith("_")}


@pytest.mark.parametrize(("path", "members"), documented_members().items())
def test_everything_in_the_reference_exists(path: str, members: set[str]) -> None:
    subject = resolved(path)

    text = getsource(subject)
    assert [name for name in members if not hasattr(subject, name) and not re.search(rf"\bself\.{name}\b", text)] == []


@pytest.mark.parametrize("module", [warren, warren.aio])
def test_every_public_name_is_in_the_reference(module: Any) -> None:
    names = {path.rpartition(".")[2] for path in documented_members() if path.startswith(f"{module.__name__}.")}

    assert set(module.__all__) - {"Empty", "Full", "WarrenError", "aio"} <= names


@pytest.mark.parametrize("path", [path for path, members in documented_members().items() if members])
def test_methods_shared_with_the_asyncio_twin_are_in_the_reference(path: str) -> None:
    subject = resolved(path)
    twin = getattr(warren.aio, subject.__name__)

    assert public(subject) & public(twin) <= documented_members()[path]


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    documents = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/api").glob("*.md")]

    named = {str(path.relative_to(ROOT / "docs")) for path in documents} | set(HOOKS["ROOT_PAGES"].values())
    assert sorted(re.findall(r"[-:] ([\w./]+\.md)$", navigation, re.MULTILINE)) == sorted(named)


@pytest.mark.parametrize(
    ("document", "link", "expected"),
    [
        ("docs/broker.md", "[a](kafka.md#b)", "[a](kafka.md#b)"),
        ("docs/broker.md", "[a](#b)", "[a](#b)"),
        ("docs/broker.md", "[a](https://example.org/)", "[a](https://example.org/)"),
        ("docs/broker.md", "[a](../README.md)", "[a](start.md)"),
        ("docs/broker.md", "[a](../ARCHITECTURE.md#layers)", "[a](ARCHITECTURE.md#layers)"),
        ("docs/broker.md", "[a](decisions)", "[a](decisions/index.md)"),
        ("docs/broker.md", "[a](../deploy/warren.toml)", "a"),
        ("docs/broker.md", "`[a](../deploy/warren.toml)`", "`[a](../deploy/warren.toml)`"),
        ("docs/broker.md", "```\n[a](../LICENSE)\n```", "```\n[a](../LICENSE)\n```"),
        ("docs/decisions/0001-a.md", "[a](../kafka.md)", "[a](../kafka.md)"),
        ("docs/decisions/0001-a.md", "[a](../../SECURITY.md)", "[a](../SECURITY.md)"),
        ("CONTRIBUTING.md", "[a](docs/kafka.md#b), [c](LICENSE)", "[a](kafka.md#b), c"),
        ("README.md", "[a](docs/decisions), [b](examples/README.md)", "[a](decisions/index.md), b"),
        ("CONTRIBUTING.md", "![a](docs/uses.svg)", "![a](uses.svg)"),
    ],
)
def test_links_hold_in_the_site_or_become_text(document: str, link: str, expected: str) -> None:
    assert HOOKS["with_site_links"](link, document) == expected


def test_the_decisions_are_listed_by_their_titles(tmp_path: Path) -> None:
    decision = tmp_path / "0001-a-way.md"
    decision.write_text("# 1. A way\n\nText.\n")

    assert HOOKS["decision_list"]([decision]).endswith("\n- [1. A way](0001-a-way.md)\n")
