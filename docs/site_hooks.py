"""The parts of the documentation site that mkdocs cannot know: which documents outside of docs/ belong to it.

The documents at the root of the project are pages of the site too. A link to another file of the project, such as a
test, becomes plain text, because the site does not hold that file.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
ROOT_PAGES: Final[Mapping[str, str]] = {
    # mkdocs takes a page README.md for the index of its folder.
    "README.md": "start.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
"""The documents at the root, and the pages that they are."""
LINK: Final = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]*)(?P<anchor>#[^)]*)?\)",
    re.DOTALL | re.MULTILINE,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds every decision to the end of the navigation, so that no list has to be kept."""
    pages = ["decisions/index.md", *(f"decisions/{path.name}" for path in decisions())]
    config.nav = [*(config.nav or []), {"Decisions": pages}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the documents at the root of the project, and a page that lists the decisions."""
    from mkdocs.structure.files import File

    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "decisions/index.md", content=decision_list(decisions())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points the links of the page to pages of the site."""
    documents = {uri: name for name, uri in ROOT_PAGES.items()}
    uri = page.file.src_uri
    return with_site_links(markdown, documents.get(uri, f"docs/{uri}"))


def with_site_links(markdown: str, document: str) -> str:
    """The text of `document`, a path from the root, with links that hold in the site."""

    def rewritten(match: re.Match[str]) -> str:
        path, text = match["path"], match["text"]
        if match["code"] or not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        page = site_page(posixpath.normpath(posixpath.join(posixpath.dirname(document), path)))
        if page is None:
            return text
        here = posixpath.dirname(document.removeprefix("docs/"))
        return f"{match['mark']}[{text}]({posixpath.relpath(page, here or '.')}{match['anchor'] or ''})"

    return LINK.sub(rewritten, markdown)


def site_page(path: str) -> str | None:
    """The page or picture of the site that `path`, from the root of the project, is; None if the site has none."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    inner = path.removeprefix("docs/")
    if inner == path:
        return None
    return f"{inner}/index.md" if os.path.isdir(ROOT / path) else inner


def decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("*.md"))


def decision_list(paths: list[Path]) -> str:
    """A page with a link to each decision, under its title."""
    titles = [re.sub(r"^# ", "", path.read_text().partition("\n")[0]) for path in paths]
    links = [f"- [{title}]({path.name})" for title, path in zip(titles, paths, strict=True)]
    return "\n".join(["# Decisions", "", "What is hard to reverse, and why it was decided so.", "", *links, ""])
