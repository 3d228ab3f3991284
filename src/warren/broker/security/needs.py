"""What a request needs a right for: operations on things that its fields name, or that its handles stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from warren.broker.security.asker import Asker
from warren.broker.security.rights import Kind, Operation
from warren.errors import NoRight

Names = Callable[[Any, Any], Iterable[str]]
"""From the asker and the decoded request, or one row of it, to names of things."""


class Source(NamedTuple):
    """Where a request names things of one kind.

    With `rows` that field of the request is a list, `names` looks at one row of it, and a row without the right is
    refused alone. `words` and `when` are what the documents say.
    """

    kind: Kind
    words: str
    names: Names
    rows: str = ""
    when: str = ""


class Need(NamedTuple):
    """An operation on everything that a source names. A right to `instead` does as well."""

    operation: Operation
    source: Source
    instead: tuple[Operation, Source] | None = None

    @property
    def words(self) -> str:
        """The need as the documents say it."""
        found = f"{self.operation.name.lower()} on {self.source.words}"
        if self.instead is not None:
            operation, source = self.instead
            found += f", or {operation.name.lower()} on {source.words}"
        return f"{found}, {self.source.when}" if self.source.when else found


class Row(NamedTuple):
    """All that a request needs, in the order in which it is asked for; `shows` says what its answer leaves out."""

    needs: Sequence[Need] = ()
    shows: str = ""

    @property
    def words(self) -> str:
        """The row as the documents say it."""
        found = list(dict.fromkeys(need.words for need in self.needs))
        if self.shows:
            found.append(f"shows only {self.shows}")
        return "; ".join(found) or "nothing"


def missing(asker: Asker, need: Need, asked: Any) -> tuple[Operation, Kind, str] | None:
    """The first right that `asked`, a request or a row of it, needs and the asker has not. None if there is none."""
    operation, source, instead = need
    for name in source.names(asker, asked):
        if not asker.may(operation, source.kind, name) and not _does_as_well(asker, instead, asked):
            return operation, source.kind, name
    return None


def _does_as_well(asker: Asker, instead: tuple[Operation, Source] | None, asked: Any) -> bool:
    if instead is None:
        return False
    operation, source = instead
    names = list(source.names(asker, asked))
    return bool(names) and all(asker.may(operation, source.kind, name) for name in names)


def check(asker: Asker, row: Row, asked: Any) -> None:
    """Raises NoRight if the request needs a right that the asker has not."""
    error = refusal(asker, row, asked)
    if error is not None:
        raise error


def refusal(asker: Asker, row: Row, asked: Any) -> NoRight | None:
    """Why the asker may not do this; None if the asker may."""
    if asker.broker.rights is None:
        return None
    for need in row.needs:
        found = missing(asker, need, asked)
        if found is not None:
            return asker.denied(*found)
    return None
