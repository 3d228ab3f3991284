"""README.md answers a newcomer's questions in order, and its claims are true."""

from __future__ import annotations

import re
import tomllib

import typer
from typer.core import TyperGroup

from tests.crash.test_power_cuts import CUTS_AT_LEAST
from tests.tidy.documents import bullets, fenced
from tests.tidy.source import ROOT
from warren.cli.main import app

README = (ROOT / "README.md").read_text()
KAFKA = (ROOT / "docs/kafka.md").read_text()
CLAIM = re.compile(r"more than ([\d.]+) times\b.*--only ([\w.]+)")


def measured() -> dict[str, float]:
    """Returns the ratio of each row of the benchmarks in which more is better."""
    documents = [(ROOT / path).read_text() for path in ("benchmarks/README.md", "docs/performance.md")]
    tables = [cells for text in documents for cells in re.findall(r"^\| `([\w.]+)` \|(.*)\|$", text, re.MULTILINE)]
    ratios = {}
    for name, row in tables:
        *_, ratio, bar, _ = (cell.strip() for cell in row.split("|"))
        if bar.startswith("≥"):
            ratios[name] = float(ratio)
    return ratios


def test_the_readme_has_the_order_of_a_newcomers_questions() -> None:
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == [
        "Try it",
        "Install",
        "Ten lines",
        "The same on the network",
        "Spark",
        "When not to use it",
        "What you get",
        "Three uses, the same files",
        "Where to go next",
    ]


def test_each_of_the_five_bullets_has_a_figure_and_the_command_that_shows_it() -> None:
    first = bullets(README.partition("\n## ")[0])

    assert len(first) == 5
    assert [bullet for bullet in first if not re.search(r"\d", bullet) or "`make " not in bullet] == []


def test_no_figure_of_the_readme_is_above_its_measurement() -> None:
    claims = [(float(figure), name) for bullet in bullets(README) for figure, name in CLAIM.findall(bullet)]
    ratios = measured()

    assert len(claims) == 3
    for figure, name in claims:
        of_the_row = [ratio for row, ratio in ratios.items() if row.startswith(name)]
        assert of_the_row
        assert figure <= min(of_the_row), name


def test_the_readme_has_the_right_counts_of_power_cuts_and_clients() -> None:
    table = re.search(r"^\| client \| none \|.*\n\|[-|]+\n((?:\|.*\n)+)", KAFKA, re.MULTILINE)
    assert table is not None
    tried = table[1].splitlines()

    assert f"{CUTS_AT_LEAST:,} times" in README
    assert f"of {len(tried)} clients" in README


def test_the_readme_installs_only_extras_that_there_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert {"broker", "spark", "connect"} <= set(re.findall(r"'\.\[(\w+)\]'", README)) <= set(extras)


def test_the_readme_names_only_commands_that_there_are() -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    lines = "\n".join(fenced(README, "sh")) + "\n" + "\n".join(re.findall(r"`(warren [^`\n]+)`", README))

    for name, inner in re.findall(r"(?:^|\| )warren ([a-z]+) ?([a-z]*)", lines, re.MULTILINE):
        command = program.commands[name]
        assert not isinstance(command, TyperGroup) or inner in command.commands


def test_bullets_are_read_with_their_continuation_lines() -> None:
    assert bullets("Text.\n\n- one\n  two\n- three\n\nno more\n- four\n") == ["one two", "three", "four"]
