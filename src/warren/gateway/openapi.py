"""OpenAPI 3.1 of what is served: made of the routes themselves, so that it tells what is so."""

from __future__ import annotations

import http
import re
from typing import Any, Final

from warren.gateway.problems import PROBLEM
from warren.gateway.routes import Route, Routes
from warren.gateway.shapes import Fields, Text, Truth, Whole

VERSION: Final = "3.1.0"
ALWAYS: Final = (400, 401, 403, 413, 429, 500, 503)
"""What may become of any request."""
PROBLEM_FIELDS: Final = Fields(
    {
        "type": Text(200),
        "title": Text(200),
        "status": Whole(400, 599),
        "detail": Text(100_000),
        "code": Text(100),
        "retryable": Truth(),
    },
    required=("type", "title", "status", "detail", "code", "retryable"),
)


def document_of(routes: Routes, version: str, *, is_asked_who: bool) -> dict[str, Any]:
    """The document. `is_asked_who`: users have to show who they are."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(routes, route, is_asked_who=is_asked_who)
    components: dict[str, Any] = {"schemas": {"Problem": PROBLEM_FIELDS.schema()}}
    if is_asked_who:
        components["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    return {
        "openapi": VERSION,
        "info": {
            "title": "Warren",
            "version": version,
            "summary": "A durable message log, for scripts and browsers",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": components,
    }


def _operation(routes: Routes, route: Route, *, is_asked_who: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _id(route),
        "summary": route.what,
        "tags": [_tag(route)],
        "parameters": [*_path_parameters(routes, route), *_query_parameters(route)],
        "responses": _responses(route),
    }
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body.schema()}}}
    if is_asked_who and not route.is_free:
        found["security"] = [{"basic": []}]
    return found


def _id(route: Route) -> str:
    words = re.findall(r"[a-z0-9]+", route.path.lower()) or ["page"]
    return "_".join([route.method.lower(), *words])


def _tag(route: Route) -> str:
    words = [word for word in route.words if word and not word.startswith("{")]
    return words[-1 if len(words) < 3 else 2] if words[:1] == ["v1"] else "broker"


def _path_parameters(routes: Routes, route: Route) -> list[dict[str, Any]]:
    names = [word[1:-1] for word in route.words if word.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": routes.shapes[name].schema()} for name in names]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "description": each.what, "schema": each.shape.schema()}
        for name, each in route.query.items()
    ]


def _responses(route: Route) -> dict[str, Any]:
    done: dict[str, Any] = {"description": http.HTTPStatus(route.status).phrase}
    if route.answer is not None:
        done["content"] = {route.kind: {"schema": route.answer.schema()}}
    elif route.status != http.HTTPStatus.NO_CONTENT:
        done["content"] = {route.kind: {"schema": {"type": "object" if route.kind == "application/json" else "string"}}}
    found = {str(route.status): done}
    for status in sorted({*ALWAYS, *route.told, *([415] if route.body is not None else [])}):
        schema = {"$ref": "#/components/schemas/Problem"}
        content: dict[str, Any] = {PROBLEM: {"schema": schema}}
        if route.is_free and status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            # Not an error: the answer is no.
            content |= done.get("content", {})
        found[str(status)] = {"description": http.HTTPStatus(status).phrase, "content": content}
    return found
