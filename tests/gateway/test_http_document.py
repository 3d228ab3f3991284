"""docs/http.md is true: its examples run with these answers, and its tables are those of the code."""

from __future__ import annotations

import http.client
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.http import Http, running_http
from tests.support.broker.standings import SLAVE_STATUS, STANDING
from tests.tidy.documents import fenced, rows
from tests.tidy.source import ROOT
from warren.gateway.handlers.metrics import cluster_families, slave_families
from warren.gateway.http.counts import Counts
from warren.gateway.http.problems import STATUSES
from warren.gateway.http.types import HttpReply, HttpRequest
from warren.gateway.route_table import routes_of

parser = pytest.importorskip("prometheus_client.parser")

DOCUMENT = (ROOT / "docs/http.md").read_text()
SHOWN_OTHERWISE = {"time", "timestamp", "due", "offset", "lease", "id"}
"""Fields with another value each time."""


async def openapi(request: HttpRequest) -> HttpReply:
    raise NotImplementedError


def examples() -> list[tuple[str, str]]:
    """Returns each command with its answer; empty if it has no answer."""
    pairs: list[tuple[str, str]] = []
    for line in fenced(DOCUMENT, "console")[0].splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], ""))
        else:
            pairs[-1] = pairs[-1][0], line
    return pairs


def answer_to(served: Http, command: str) -> bytes:
    """Sends the request that curl would send, and returns the body of the answer."""
    words = iter(shlex.split(command)[2:])
    method, body, path, headers = "GET", None, "", {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-d":
            method, body = "POST", next(words).encode()
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        else:
            path = word.removeprefix("localhost:8080")
    return served.ask(method, path, body, **headers).data


def same_but(document: Any) -> Any:
    """Returns it without the fields that have another value each time."""
    if isinstance(document, dict):
        return {name: "…" if name in SHOWN_OTHERWISE and each else same_but(each) for name, each in document.items()}
    return [same_but(each) for each in document] if isinstance(document, list) else document


def replaced(command: str, values: dict[str, str]) -> str:
    """Returns it with the tokens and ids of this broker instead of those of the document."""
    for example, value in values.items():
        command = command.replace(example, value)
    return command


def learn(example: Any, answer: Any, values: dict[str, str]) -> None:
    """Notes in `values` which token or id of the broker's answer stands for which one of the documented answer."""
    if isinstance(example, dict):
        for name in example:
            if name in ("lease", "id") and example[name]:
                values[example[name]] = answer[name]
            else:
                learn(example[name], answer[name], values)
    elif isinstance(example, list):
        for each, other in zip(example, answer, strict=True):
            learn(each, other, values)


def test_the_examples_return_the_documented_answers(tmp_path: Path) -> None:
    values: dict[str, str] = {}
    with running_http(tmp_path / "data") as served:
        for command, documented in examples():
            data = answer_to(served, replaced(command, values))

            assert (data == b"") == (documented == ""), command
            if documented:
                example, answer = json.loads(documented), json.loads(data)
                assert same_but(answer) == same_but(example), command
                learn(example, answer, values)

    assert len(values) == 2


def test_the_document_has_every_route_and_no_other() -> None:
    routes = routes_of(openapi, Counts())

    requests = [request for request, _ in rows(DOCUMENT, "What is served", "request", "what it does")]

    assert sorted(requests) == sorted(f"{route.method} {route.path}" for route in routes.routes)


def test_the_document_has_every_metric_and_every_status(tmp_path: Path) -> None:
    with running_http(tmp_path / "data") as served:
        served.put("orders", "a")
        served.ask("POST", "/v1/topics/orders/groups/workers/take", {})
        text = served.ask("GET", "/metrics").data.decode()
        statistics = served.get("/v1/statistics")
    named = {name for cell, _ in rows(DOCUMENT, "Metrics", "metric", "labels") for name in re.findall(r"\w+", cell)}
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    served_names = {
        f"{name}_total" if family.type == "counter" else name
        for name, family in families.items()
        if name.startswith("warren_")
    }
    served_names |= {each.name for each in [*cluster_families(STANDING), *slave_families(SLAVE_STATUS)]}
    statuses = {int(each) for cell, _ in rows(DOCUMENT, "Errors", "status", "when") for each in cell.split(", ")}
    fields = {
        name for cell, _ in rows(DOCUMENT, "Statistics", "field", "what it is") for name in re.findall(r"\w+", cell)
    }

    assert named == served_names
    more = {http.client.REQUEST_HEADER_FIELDS_TOO_LARGE, http.client.TEMPORARY_REDIRECT}
    assert statuses == {*STATUSES.values(), *more}
    assert fields == set(statistics)
