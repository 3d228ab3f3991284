"""The links of the documents, and the places in documents that a link may name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
LINKS: Final = {"a": "href", "img": "src"}


def broken_links(document: Path) -> list[str]:
    """The links of `document` to files that are missing, and to headings that no document has.

    Links to other sites are not followed: a test needs no network.
    """
    return [link for link in _links(document.read_text()) if not _leads_somewhere(link, document)]


def anchors(document: str) -> set[str]:
    """The names of the headings of `document`, as GitHub and our site make them: `#every-key` for "Every key"."""
    tokens = MARKDOWN.parse(document)
    titles = [inline for heading, inline in pairwise(tokens) if heading.type == "heading_open"]
    return {_slug("".join(child.content for child in title.children or ())) for title in titles}


def _leads_somewhere(link: str, document: Path) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = document.parent / unquote(parts.path) if parts.path else document
    if not parts.fragment:
        return target.exists()
    return target.suffix == ".md" and target.is_file() and unquote(parts.fragment) in anchors(target.read_text())


def _links(document: str) -> Iterator[str]:
    for token in _tokens(MARKDOWN.parse(document)):
        target = token.attrGet(LINKS.get(token.tag, ""))
        if isinstance(target, str):
            yield target


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
