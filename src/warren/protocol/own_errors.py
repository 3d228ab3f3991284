"""Errors over the wire: as code, sentence and facts, and back as the same class with the same attributes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from warren.errors import RemoteError, WarrenError
from warren.protocol.kafka_codec import Fields, Values


def error_values(error: WarrenError, told: Callable[[str], str] = str) -> Values:
    """The fields that tell of an error. All text in them goes through `told`."""
    facts = {
        name: told(value) if isinstance(value, str) else value
        for name, value in vars(error).items()
        if not name.startswith("_")
    }
    return {
        "code": error.code,
        "sentence": told(str(error)),
        "facts": json.dumps(facts, default=str),
        "retryable": error.retryable,
    }


def error_of(told: Fields) -> WarrenError:
    """The error that was told of: of its own class, or a RemoteError where this release has none of that code."""
    kind = error_kinds().get(told.code)
    if kind is None:
        unknown = RemoteError(told.code, told.sentence)
        unknown.retryable = told.retryable
        return unknown
    error = kind.__new__(kind, told.sentence)
    # Not by its own constructor, which would want the facts in its own order, and makes the sentence anew.
    Exception.__init__(error, told.sentence)
    for name, value in json.loads(told.facts).items():
        setattr(error, name, _restored(value))
    return error


def _restored(value: Any) -> Any:
    """Pairs within a list are tuples where errors have them."""
    return [tuple(each) if isinstance(each, list) else each for each in value] if isinstance(value, list) else value


@functools.cache
def error_kinds() -> Mapping[str, type[WarrenError]]:
    """Every class of error by its code."""
    return MappingProxyType({kind.code: kind for kind in _kinds(WarrenError)})


def _kinds(kind: type[WarrenError]) -> Iterator[type[WarrenError]]:
    """The class, and what is made from it; those with a code of their own."""
    for child in kind.__subclasses__():
        yield from _kinds(child)
    if "code" in vars(kind):
        yield kind
