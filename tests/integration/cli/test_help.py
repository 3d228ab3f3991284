"""Every command, found by walking the program: its help, and its `--json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.tidy.source import ROOT
from warren.cli.main import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command below `command`."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path
    else:
        for name, each in below.items():
            yield from commands(each, (*path, name))


COMMANDS = sorted(commands(typer.main.get_command(app)))


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_shows_a_flag_without_a_value(words: tuple[str, ...]) -> None:
    text = help_of(*words)

    assert "--help" in text
    assert "<bool>" not in text


def test_every_command_writes_json_but_for_those_that_the_document_names() -> None:
    section = (ROOT / "docs" / "cli.md").read_text().partition("\n## JSON\n")[2].partition("\n## ")[0]
    exceptions = re.findall(r"^- `warren ([^`]+)`", section, re.MULTILINE)

    without = [" ".join(words) for words in COMMANDS if "--json" not in help_of(*words)]

    assert without == sorted(exceptions)
