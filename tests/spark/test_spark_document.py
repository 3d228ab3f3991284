"""docs/spark.md is true: its examples run, and its tables are those of the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.spark.quiet import complaints
from tests.tidy.documents import fenced, rows
from tests.tidy.source import ROOT, SOURCE
from warren.spark.columns.columns import MESSAGE_COLUMNS
from warren.spark.read.options import READ_OPTIONS
from warren.spark.store_access.options import STORE_OPTIONS
from warren.spark.write.options import WRITE_OPTIONS
from warren.spark.write.sink_columns import ROLES

DOCUMENT: Final = (ROOT / "docs/spark.md").read_text()


def test_the_examples_run_one_after_the_other_and_without_a_complaint(tmp_path: Path) -> None:
    script = "\n".join(fenced(DOCUMENT, "python"))

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert "|     de| 10.0|" in done.stdout
    assert done.stdout.splitlines()[-2].startswith("""b'{"COUNTRY": "DE", "AMOUNT": 10}'""")
    assert done.stdout.splitlines()[-1] == "2 for the EU"


def test_the_columns_are_those_of_the_code() -> None:
    kinds = [[name, column.kind.simpleString()] for name, column in MESSAGE_COLUMNS.items()]

    assert rows(DOCUMENT, "Columns", "column", "type") == kinds
    assert rows(DOCUMENT, "Columns for writing", "column", "type") == [list(role) for role in ROLES.items()]


def test_the_options_are_those_of_the_code() -> None:
    tables = {
        "the store": STORE_OPTIONS,
        "reading": READ_OPTIONS.without(*STORE_OPTIONS),
        "writing": WRITE_OPTIONS.without(*STORE_OPTIONS),
    }

    for title, table in tables.items():
        # A cell that begins or ends with code loses its quotes when it is read.
        options = [[each.name, each.description.strip(" `")] for each in table.values()]
        assert rows(DOCUMENT, f"Options for {title}", "option", "meaning") == options
