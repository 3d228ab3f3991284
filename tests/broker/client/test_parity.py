"""Programs written for an embedded store run unchanged against a broker: examples of the documents print the same."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.running import running_broker
from tests.tidy.documents import fenced, needs_broker
from tests.tidy.source import ROOT

EXAMPLES = fenced((ROOT / "docs/topics.md").read_text(), "python")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "example", "exec"), names)
    return TIME.sub("<time>", out.getvalue())


CLIENT_EXAMPLES = [
    example
    for path in ("README.md", "docs/client.md")
    for example in fenced((ROOT / path).read_text(), "python")
    if needs_broker(example)
]


@pytest.mark.parametrize("example", CLIENT_EXAMPLES, ids=range(len(CLIENT_EXAMPLES)))
def test_an_example_of_the_client_runs_and_prints(example: str, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", durability="commit") as broker:
        assert printed(example.replace("localhost:9092", broker.address))


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_the_same_over_the_network(example: str, tmp_path: Path) -> None:
    here = printed(example.replace('warren.open("data")', f"warren.open({str(tmp_path / 'here')!r})"))

    with running_broker(tmp_path / "there", durability="commit") as broker:
        there = printed(example.replace('warren.open("data")', f"warren.connect({broker.address!r})"))

    assert "warren.open(" in example
    assert there == here
