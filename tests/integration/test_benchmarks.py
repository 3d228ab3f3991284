"""The benchmarks run, and their output is complete. Speed is not checked here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

README = (ROOT / "benchmarks" / "README.md").read_text()


def run_benchmarks(*arguments: str, program: str = "benchmarks") -> str:
    command = [sys.executable, "-m", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_quick_run_writes_every_figure_and_leaves_no_data(tmp_path: Path) -> None:
    data, results = tmp_path / "data", tmp_path / "results.json"
    data.mkdir()

    table = run_benchmarks("--quick", "--only", "space.disk", "--dir", str(data), "--json", str(results))

    written = json.loads(results.read_text())
    assert list(data.iterdir()) == []
    assert written["machine"]["python"]
    assert [row["name"] for row in written["rows"]] == ["space.disk.single", "space.disk.batches"]
    for row in written["rows"]:
        assert row["ratio"] == row["measured"]["value"] / row["baseline"]["value"]
        assert row["what"] in table


@pytest.mark.parametrize(
    ("program", "document", "option"),
    [
        ("benchmarks", "benchmarks/README.md", "--write-readme"),
        ("benchmarks.spark", "benchmarks/README.md", "--write-readme"),
        ("benchmarks.broker", "docs/performance.md", "--write-docs"),
        ("benchmarks.cluster", "docs/performance.md", "--write-docs"),
    ],
)
def test_every_benchmark_stands_in_the_readme_with_its_command(program: str, document: str, option: str) -> None:
    if program == "benchmarks.spark":
        pytest.importorskip("pyspark")

    names = run_benchmarks("--list", program=program).split()

    assert [name for name in names if f"`python -m {program} --only {name}`" not in README] == []
    assert f"<!-- results: start (python -m {program} {option}) -->" in (ROOT / document).read_text()


def test_a_name_that_no_benchmark_has_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_benchmarks("--only", "nothing")

    assert failed.value.returncode == 2
    assert "'nothing'" in failed.value.stderr
