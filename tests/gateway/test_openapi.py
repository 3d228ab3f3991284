"""OpenAPI tells what is served, and what is served keeps to it whatever schemathesis sends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.running import running_http
from tests.tidy.source import ROOT
from warren.broker.limits import Limits
from warren.gateway.api import routes_of
from warren.gateway.counts import Counts
from warren.gateway.exchange import Asked, Reply
from warren.gateway.openapi import document_of
from warren.gateway.problems import TOLD, status_of
from warren.protocol.own_errors import error_kinds

WITHOUT = "positive_data_acceptance"
"""Of texts OpenAPI can limit the characters, and Warren limits the bytes."""


async def openapi(asked: Asked) -> Reply:
    raise NotImplementedError


def test_what_schemathesis_sends_is_answered_as_the_document_says(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--phases", "coverage", "--generation-deterministic", "--seed", "1", "--request-timeout", "60"]
    variables = {"PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.gateway.schemathesis_hooks"}

    with running_http(tmp_path / "data", limits=Limits(fetch_wait_s_max=0.01)) as served:
        served.put("orders", "first")
        done = subprocess.run(
            [program, "run", f"{served.url}/openapi.json", "--no-color", "--exclude-checks", WITHOUT, *options],
            cwd=tmp_path,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        held = served.broker.budget.size

    assert done.returncode == 0, done.stdout + done.stderr
    assert held == 0


def test_every_route_has_a_name_of_its_own_and_tells_what_it_takes() -> None:
    routes = routes_of(openapi, Counts())

    document = document_of(routes, "1", is_asked_who=True)

    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == len(routes.routes)
    assert all(each["summary"] for each in operations)
    free = {route.path for route in routes.routes if route.is_free}
    assert free == {"/healthz", "/readyz", "/openapi.json"}
    open_paths = {
        path for path, each in document["paths"].items() if any("security" not in one for one in each.values())
    }
    assert open_paths == free


def test_every_error_has_a_status() -> None:
    for kind in error_kinds().values():
        assert status_of(kind.__new__(kind)) in TOLD
