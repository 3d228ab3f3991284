"""Every link in the documents leads to a file that exists, and to a heading that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.links import anchors, broken_links
from tests.tidy.source import ROOT

DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_the_documents_that_newcomers_read_are_checked() -> None:
    names = {str(path.relative_to(ROOT)) for path in DOCUMENTS}

    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "docs/glossary.md"} <= names


@pytest.mark.parametrize(
    "link",
    [
        "[gone](gone.md)",
        "[gone](folder/gone.md#top)",
        "[no such heading](#every-keys)",
        "[no such heading](there.md#top)",
        "[a heading of a program](program.py#top)",
        "![a picture](gone.svg)",
        "[a link\nover two lines](gone.md)",
        "[by reference][name]\n\n[name]: gone.md",
        "| a |\n|---|\n| [in a table](gone.md) |",
    ],
)
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Here\n")
    (tmp_path / "program.py").touch()
    document = tmp_path / "document.md"
    document.write_text(f"# Title\n\n## Every key\n\n{link}\n")

    assert len(broken_links(document)) == 1


def test_good_links_links_to_other_sites_and_code_are_not_complained_about(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "there.md").write_text("Rights of `warren.connect`\n----\n")
    (tmp_path / "a picture.svg").touch()
    document = tmp_path / "document.md"
    document.write_text(
        "# Title\n\n[top](#title) [folder](folder) [there](folder/there.md#rights-of-warrenconnect)\n"
        "[site](https://example.org/gone.md#top) ![picture](a%20picture.svg) `[code](gone.md)`\n\n"
        "```\n[code](gone.md)\n```\n"
    )

    assert broken_links(document) == []


def test_headings_are_named_as_on_github() -> None:
    titles = "# Every *key*, and `a.b`\n\n## Kafka's clients\n\n### A – B_c\n\n```\n# no heading\n```\n"

    assert anchors(titles) == {"every-key-and-ab", "kafkas-clients", "a--b_c"}
