"""The OpenAPI 3.1 document, made from the routes themselves, so that it always matches them."""

from __future__ import annotations

import http
import re
from typing import Any, Final

from warren.gateway.http.problems import PROBLEM
from warren.gateway.http.routes import Route, Routes
from warren.gateway.http.schemas import NUMBER, Fields, Text, Value
from warren.settings import Count, Flag

VERSION: Final = "3.1.0"
ALWAYS: Final = (400, 401, 403, 413, 429, 500, 503)
"""The statuses of errors that any route may have."""
PROBLEM_FIELDS: Final = Fields(
    {
        "type": Text(200),
        "title": Text(200),
        "status": Value(Count(400, 599)),
        "detail": Text(100_000),
        "code": Text(100),
        "retryable": Value(Flag()),
        "partition": NUMBER,
        "number": NUMBER,
        "epoch": NUMBER,
        "master": Text(300),
    },
    required=("type", "title", "status", "detail", "code", "retryable"),
)


def document_of(routes: Routes, version: str, *, needs_login: bool) -> dict[str, Any]:
    """Returns the document. `needs_login`: the broker requires a user and a password."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(routes, route, needs_login=needs_login)
    components: dict[str, Any] = {"schemas": {"Problem": PROBLEM_FIELDS.schema()}}
    if needs_login:
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


def _operation(routes: Routes, route: Route, *, needs_login: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _id(route),
        "summary": route.summary,
        "tags": [_tag(route)],
        "parameters": [*_path_parameters(routes, route), *_query_parameters(route)],
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body.schema()}}}
    if needs_login and not route.is_free:
        operation["security"] = [{"basic": []}]
    return operation


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
        {"name": name, "in": "query", "description": each.description, "schema": each.shape.schema()}
        for name, each in route.query.items()
    ]


def _responses(route: Route) -> dict[str, Any]:
    success: dict[str, Any] = {"description": http.HTTPStatus(route.status).phrase}
    if route.answer is not None:
        success["content"] = {route.kind: {"schema": route.answer.schema()}}
    elif route.status != http.HTTPStatus.NO_CONTENT:
        success["content"] = {
            route.kind: {"schema": {"type": "object" if route.kind == "application/json" else "string"}}
        }
    responses = {str(route.status): success}
    for status in sorted({*ALWAYS, *route.errors, *([415] if route.body is not None else [])}):
        schema = {"$ref": "#/components/schemas/Problem"}
        content: dict[str, Any] = {PROBLEM: {"schema": schema}}
        if route.is_free and status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            # This is not an error: the health check answers "no" with this status.
            content |= success.get("content", {})
        responses[str(status)] = {"description": http.HTTPStatus(status).phrase, "content": content}
    return responses
