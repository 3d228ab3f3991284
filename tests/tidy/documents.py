"""Reads the claims of the documents from their Markdown, so that they can be compared with the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from struct import Struct, calcsize
from typing import NamedTuple

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Field(NamedTuple):
    """One row of a table of bytes."""

    at: int
    size: int
    name: str


def fenced(document: str, language: str) -> list[str]:
    """Returns the blocks of code in `language`."""
    return [text for name, text in FENCE.findall(document) if name == language]


def bullets(document: str) -> list[str]:
    """Returns the items of the document's lists, each in one line."""
    return [" ".join(item.split()) for item in re.findall(r"^- (.*(?:\n  .*)*)", document, re.MULTILINE)]


def needs_broker(example: str) -> bool:
    """Returns whether `example` connects to a broker: then it runs with the tests of the client."""
    return "localhost:9092" in example


def needs_spark(example: str) -> bool:
    """Returns whether `example` starts Spark: then it runs with the tests on Spark."""
    return "warren.spark" in example


def glossary(document: str) -> list[str]:
    """Returns the words that `document` explains: those in bold in the first column of its tables."""
    cells = re.findall(r"^\| (\*\*.*?) \|", document, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"\*\*([^*]+)\*\*", cell)]


def without_common_words(document: str) -> str:
    """Returns a document without the words of other systems that are in brackets after ours, for readers who search.

    In the glossary that is any word after the explained one, elsewhere the word for a block.
    """
    document = re.sub(r"^(\| \*\*[^|(]*)\([^)|]*\) \|", r"\1|", document, flags=re.MULTILINE)
    return re.sub(r"\b(blocks?)\s\(segments?\)", r"\1", document)


def make_targets(makefile: str) -> set[str]:
    """Returns the targets that `makefile` declares."""
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))


def mentioned_targets(document: str) -> set[str]:
    """Returns the targets that `document` mentions as commands."""
    commands = [*fenced(document, "sh"), *re.findall(r"`([^`\n]+)`", FENCE.sub("", document))]
    return {target for command in commands for target in re.findall(r"\bmake ([a-z-]+)", command)}


def mentioned_paths(document: str) -> list[str]:
    """Returns the files of the project that `document` names, in backticks or as the target of a link, in prose."""
    prose = FENCE.sub("", document)
    quoted = re.findall(r"`([\w.-]+(?:/[\w.-]+)*/?)`", prose)
    linked = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    return [path for path in quoted if _is_path(path)] + [path for path in linked if "://" not in path]


def missing_paths(document: str, folders: Sequence[Path]) -> list[str]:
    """Returns the paths that `document` names and that exist in none of `folders`."""
    paths = mentioned_paths(document)
    return [path for path in paths if not any((folder / path).exists() for folder in folders)]


def byte_table(document: str, title: str) -> list[Field]:
    """Returns the rows `| at | size | field |` of the table under the heading `title`; empty if there is none."""
    return [Field(int(at), int(size), name) for at, size, name in rows(document, title, "at", "size", "field")]


def rows(document: str, title: str, *columns: str) -> list[list[str]]:
    """Returns the named columns, row by row, of the table under the heading `title` whose head starts with them."""
    heading = re.search(rf"^#+ {re.escape(title)}$", document, re.MULTILINE)
    if heading is None:
        return []
    under = re.split(r"^#+ ", document[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in under.splitlines() if line.startswith("|")
    ]
    if not lines or lines[0][: len(columns)] != list(columns):
        return []
    return [line[: len(columns)] for line in lines[2:]]


def byte_layout(layout: Struct, names: Sequence[str], start: int) -> list[Field]:
    """Returns the table for `layout`, if its first field is at `start`."""
    order = layout.format[0]
    fields = []
    for name, code in zip(names, re.findall(r"\d*[a-zA-Z]", layout.format[1:]), strict=True):
        size = calcsize(order + code)
        fields.append(Field(start, size, name))
        start += size
    return fields


def joined_names(source: str) -> set[str]:
    """Returns the parts of file names that the Python module `source` passes to `os.path.join`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    parts = [part for call in calls if ast.unparse(call.func) == "os.path.join" for part in call.args]
    return {text for part in parts for text in _texts(part)}


def _texts(expression: ast.expr) -> list[str]:
    """Returns the text of `expression` outside its variables and their format."""
    match expression:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return [text for part in parts for text in _texts(part)]
        case ast.BinOp(left=left, right=right):
            return _texts(left) + _texts(right)
    return []


def _is_path(text: str) -> bool:
    return bool(re.search(r"\.(py|md|toml|json)$", text)) or (
        text.partition("/")[0] in {"docs", "src", "tests", "benchmarks", "examples", ".ci"} and "/" in text
    )
