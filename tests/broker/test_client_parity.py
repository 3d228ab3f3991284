"""Programs written for an embedded store run unchanged against a broker: examples of docs/topics.md print the same."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.broker.running import running_broker
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT

EXAMPLES = fenced((ROOT / "docs/topics.md").read_text(), "python")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "example", "exec"), names)
    return TIME.sub("<time>", out.getvalue())


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_the_same_over_the_network(example: str, tmp_path: Path) -> None:
    here = printed(example.replace('warren.open("data")', f"warren.open({str(tmp_path / 'here')!r})"))

    with running_broker(tmp_path / "there", durability="commit") as broker:
        there = printed(example.replace('warren.open("data")', f"warren.connect({broker.address!r})"))

    assert "warren.open(" in example
    assert there == here
