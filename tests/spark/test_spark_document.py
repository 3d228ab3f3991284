"""docs/spark.md says what is so: its examples run, and its tables are those of the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.spark.quiet import complaints
from tests.tidy.documents import fenced, rows
from tests.tidy.source import ROOT, SOURCE
from warren.spark.columns import MESSAGE_COLUMNS
from warren.spark.options import READ_OPTIONS
from warren.spark.sink_columns import ROLES
from warren.spark.sink_options import WRITE_OPTIONS
from warren.spark.store_options import STORE_OPTIONS

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
    assert rows(DOCUMENT, "Options for the store", "option") == [[option] for option in STORE_OPTIONS]
    reading, writing = (rows(DOCUMENT, f"Options for {what}", "option") for what in ("reading", "writing"))
    assert reading == [[option] for option in READ_OPTIONS if option not in STORE_OPTIONS]
    assert writing == [[option] for option in WRITE_OPTIONS if option not in STORE_OPTIONS]
