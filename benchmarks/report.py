"""The output of a run: a table for the terminal, JSON with every figure, and the results in the README."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich import box
from rich.table import Table

from benchmarks.measure import Row

README: Final = Path(__file__).with_name("README.md")
RESULTS_START: Final = "<!-- results: start (python -m {program} {option}) -->"
RESULTS_END: Final = "<!-- results: end -->"
VERDICTS: Final[Mapping[bool | None, str]] = {True: "yes", False: "NO", None: ""}
COLORS: Final[Mapping[bool | None, str]] = {True: "green", False: "bold red", None: "dim"}


@dataclass(slots=True, kw_only=True)
class Report:
    """The rows of a run as they come in, and what could not be measured, by name, with the reason."""

    machine: Mapping[str, str]
    is_quick: bool
    rows: list[Row] = field(default_factory=list)
    not_measured: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_reached(self) -> bool:
        """Whether everything was measured, and no row is on the wrong side of its bar."""
        return not self.not_measured and all(row.is_reached is not False for row in self.rows)

    def table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("what", overflow="fold")
        table.add_column("baseline", overflow="fold")
        for name in ("its figure", "measured", "ratio", "bar", "reached"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.rows:
            verdict = f"[{COLORS[row.is_reached]}]{VERDICTS[row.is_reached]}[/]"
            table.add_row(
                row.what, row.baseline.name, str(row.baseline), str(row.measured), ratio(row), bar(row), verdict
            )
        for name, reason in self.not_measured.items():
            table.add_row(name, f"not measured: {reason}", "", "", "", "", "")
        return table

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "machine": self.machine,
            "quick": self.is_quick,
            "seconds": self.seconds,
            "rows": [row.as_json() for row in self.rows],
            "not_measured": self.not_measured,
        }
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    def write_into(self, path: Path, program: str, option: str) -> None:
        """Replaces the results of this program in a document by the rows."""
        start = RESULTS_START.format(program=program, option=option)
        before, _, rest = path.read_text().partition(start)
        _, end_line, after = rest.partition(RESULTS_END)
        assert end_line, f"{path.name} has the two lines that the results stand between"
        path.write_text(f"{before}{start}\n{self._markdown()}\n{RESULTS_END}{after}")

    def _markdown(self) -> str:
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items() if value)
        lines = [
            f"{'A quick run' if self.is_quick else 'A full run'} of {self.seconds:.0f} s: {machine}.",
            "",
            "| row (`--only` takes its start) | what | baseline | its figure | measured | ratio | bar | reached |",
            "|---|---|---|---:|---:|---:|---:|---|",
        ]
        for row in self.rows:
            figures: Sequence[str] = (row.baseline.name, str(row.baseline), str(row.measured), ratio(row), bar(row))
            lines.append(" | ".join(("", f"`{row.name}`", row.what, *figures, VERDICTS[row.is_reached], "")).strip())
        lines += [f"\nNot measured: {name} ({reason})." for name, reason in self.not_measured.items()]
        return "\n".join(lines)


def ratio(row: Row) -> str:
    return f"{row.ratio:.3g}" if row.ratio < 100 else f"{row.ratio:.0f}"


def bar(row: Row) -> str:
    return str(row.bar) if row.bar is not None else ""
