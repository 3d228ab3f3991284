"""Routes: the paths that are served, with their handlers and schemas. Requests and OpenAPI both use this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from warren.broker.security.needs import NeedsRow
from warren.broker.security.table import HTTP
from warren.errors import BadInput, NoSuchPage, WarrenError, WrongMethod
from warren.gateway.http.schemas import Fields, Plain
from warren.gateway.http.types import JSON, HttpReply, HttpRequest
from warren.settings import unknown

HttpHandler = Callable[[HttpRequest], Awaitable[HttpReply]]
PARAMETERS_MAX: Final = 64


class Parameter(NamedTuple):
    """One parameter of the query."""

    shape: Plain
    description: str


class Route(NamedTuple):
    """One method of one path. `is_free`: needs no login and no right, and works while the broker stops.

    `is_spared`: works even if all places for connections are taken, or the user has used up a quota.
    """

    method: str
    path: str
    handle: HttpHandler
    summary: str
    query: Mapping[str, Parameter] = MappingProxyType({})
    body: Fields | None = None
    answer: Fields | None = None
    status: int = 200
    kind: str = JSON
    is_free: bool = False
    is_spared: bool = False
    errors: Sequence[int] = ()
    """Statuses of errors in addition to those that every route may have."""
    refusal: Callable[[str], WarrenError] | None = None
    """Returns why this process does not serve a request with this path and query; None if it serves the route."""

    @property
    def name(self) -> str:
        """Returns method and path."""
        return f"{self.method} {self.path}"

    @property
    def row(self) -> NeedsRow:
        """Returns the row of the table of rights for this route."""
        return HTTP[self.name]

    @property
    def words(self) -> list[str]:
        return self.path.strip("/").split("/")


class RouteMatch(NamedTuple):
    """A route, and the values of the parameters in its path."""

    route: Route
    path: Mapping[str, str]


class Routes:
    """The table of routes. A path matches word by word; a word in braces matches any word."""

    def __init__(self, routes: Sequence[Route], shapes: Mapping[str, Plain]) -> None:
        self.routes, self.shapes = tuple(routes), MappingProxyType(dict(shapes))
        unknown = {route.name for route in self.routes} - HTTP.keys()
        if unknown:
            raise KeyError(f"the table of rights has no row for {', '.join(sorted(unknown))}")

    def find(self, method: str, path: str) -> RouteMatch:
        """Returns the route of a request. Raises NoSuchPage, or WrongMethod if the path has other methods."""
        words = path.strip("/").split("/")
        matches = [route for route in self.routes if _fits(route.words, words)]
        # A literal word has precedence over a word in braces.
        matches = [route for route in matches if route.path.count("{") == min(each.path.count("{") for each in matches)]
        if not matches:
            raise NoSuchPage(path[:200])
        # HEAD is handled as GET; the connection then sends the head of the reply without its body.
        effective = "GET" if method == "HEAD" else method
        for route in matches:
            if route.method == effective:
                return RouteMatch(route, self._path_values(route, words))
        allowed = sorted({route.method for route in matches})
        raise WrongMethod(method, [*allowed, "HEAD"] if "GET" in allowed else allowed)

    def _path_values(self, route: Route, words: Sequence[str]) -> dict[str, str]:
        values = {}
        for name, word in zip(route.words, words, strict=True):
            if name.startswith("{"):
                try:
                    text = unquote(word, errors="strict")
                except UnicodeDecodeError:
                    raise BadInput(f"path: {word[:50]!r} is not UTF-8") from None
                self.shapes[name[1:-1]].read(text, f"path: {name[1:-1]}")
                values[name[1:-1]] = text
        return values


def read_query(route: Route, text: str) -> dict[str, Any]:
    """Returns the values of the query. Raises BadInput for an unknown parameter, and for one that comes twice."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except ValueError as error:
        raise BadInput(f"query: {error}") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in route.query:
            raise BadInput(f"query: {unknown('parameter', name, route.query)}")
        if name in values:
            raise BadInput(f"query: {name} comes twice")
        values[name] = route.query[name].shape.read(value, f"query: {name}")
    return values


def _fits(route: Sequence[str], words: Sequence[str]) -> bool:
    return len(route) == len(words) and all(
        (name.startswith("{") and word != "") or name == word for name, word in zip(route, words, strict=True)
    )
