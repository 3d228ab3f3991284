"""Routes: what is served at which path, what it takes and gives. Requests and OpenAPI both go by this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from warren.broker.security.needs import Row
from warren.broker.security.table import HTTP
from warren.errors import BadInput, NoSuchPage, WrongMethod
from warren.gateway.exchange import JSON, Asked, Reply
from warren.gateway.shapes import Fields, Plain

Handler = Callable[[Asked], Awaitable[Reply]]
PARAMETERS_MAX: Final = 64


class Parameter(NamedTuple):
    """What may stand in the query."""

    shape: Plain
    what: str


class Route(NamedTuple):
    """One method of one path. `is_free`: needs no login and no right, and is answered also while the broker stops.

    `is_spared`: answered even if all places for connections are taken, or the user has used up a quota.
    """

    method: str
    path: str
    handle: Handler
    what: str
    query: Mapping[str, Parameter] = MappingProxyType({})
    body: Fields | None = None
    answer: Fields | None = None
    status: int = 200
    kind: str = JSON
    is_free: bool = False
    is_spared: bool = False
    told: Sequence[int] = ()
    """Further statuses than those that every route may have."""

    @property
    def name(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @property
    def row(self) -> Row:
        """What it needs rights for."""
        return HTTP[self.name]

    @property
    def words(self) -> list[str]:
        return self.path.strip("/").split("/")


class Found(NamedTuple):
    """A route, and what stands in its path."""

    route: Route
    path: Mapping[str, str]


class Routes:
    """All of them. Paths are told apart by their words; one in braces stands for any."""

    def __init__(self, routes: Sequence[Route], shapes: Mapping[str, Plain]) -> None:
        self.routes, self.shapes = tuple(routes), MappingProxyType(dict(shapes))
        unknown = {route.name for route in self.routes} - HTTP.keys()
        if unknown:
            raise KeyError(f"the table of rights has no row for {', '.join(sorted(unknown))}")

    def find(self, method: str, path: str) -> Found:
        """Who answers; NoSuchPage, or WrongMethod where the path is served otherwise."""
        words = path.strip("/").split("/")
        there = [route for route in self.routes if _fits(route.words, words)]
        # A word that is meant as such wins over one that stands for any.
        there = [route for route in there if route.path.count("{") == min(each.path.count("{") for each in there)]
        if not there:
            raise NoSuchPage(path[:200])
        # Who wants the head alone is given it by whoever sends the answer.
        wanted = "GET" if method == "HEAD" else method
        for route in there:
            if route.method == wanted:
                return Found(route, self._taken(route, words))
        allowed = sorted({route.method for route in there})
        raise WrongMethod(method, [*allowed, "HEAD"] if "GET" in allowed else allowed)

    def _taken(self, route: Route, words: Sequence[str]) -> dict[str, str]:
        found = {}
        for name, word in zip(route.words, words, strict=True):
            if name.startswith("{"):
                try:
                    text = unquote(word, errors="strict")
                except UnicodeDecodeError:
                    raise BadInput(f"path: {word[:50]!r} is no UTF-8") from None
                self.shapes[name[1:-1]].read(text, f"path: {name[1:-1]}")
                found[name[1:-1]] = text
        return found


def read_query(route: Route, text: str) -> dict[str, Any]:
    """The values of the query, each of its shape; BadInput for what nobody asked for, or comes twice."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except ValueError as error:
        raise BadInput(f"query: {error}") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in route.query:
            known = ", ".join(route.query) or "none"
            raise BadInput(f"query: there is no {name[:50]!r}; there are {known}")
        if name in found:
            raise BadInput(f"query: {name} is given twice")
        found[name] = route.query[name].shape.read(value, f"query: {name}")
    return found


def _fits(route: Sequence[str], words: Sequence[str]) -> bool:
    return len(route) == len(words) and all(
        (name.startswith("{") and word != "") or name == word for name, word in zip(route, words, strict=True)
    )
