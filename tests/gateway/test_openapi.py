"""OpenAPI describes what is served, and the server keeps to it for any input of schemathesis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker.http import running_http
from tests.tidy.source import ROOT
from warren.broker.settings import BrokerLimits
from warren.gateway.http.counts import Counts
from warren.gateway.http.openapi import document_of
from warren.gateway.http.problems import STATUSES, status_of
from warren.gateway.http.types import HttpReply, HttpRequest
from warren.gateway.route_table import routes_of
from warren.protocol.native.calls import error_kinds

WITHOUT = "positive_data_acceptance"
"""OpenAPI can limit the characters of texts, while Warren limits their bytes."""


async def openapi(request: HttpRequest) -> HttpReply:
    raise NotImplementedError


def test_requests_of_schemathesis_are_answered_as_documented(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--phases", "coverage", "--generation-deterministic", "--seed", "1", "--request-timeout", "60"]
    variables = {"PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.gateway.schemathesis_hooks"}

    with running_http(tmp_path / "data", limits=BrokerLimits(fetch_wait_s_max=0.01)) as served:
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


def test_every_route_has_a_unique_name_and_documented_parameters() -> None:
    routes = routes_of(openapi, Counts())

    document = document_of(routes, "1", needs_login=True)

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
        assert status_of(kind.__new__(kind)) in STATUSES.values()
