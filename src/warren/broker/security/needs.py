"""The rights that a request needs: operations on resources that its fields name, or that its handles stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from warren.broker.security.asker import Asker
from warren.broker.security.replica_user import REPLICA_USER
from warren.broker.security.rights import Operation, ResourceKind
from warren.errors import NoRight, ReplicasOnly

Names = Callable[[Any, Any], Iterable[str]]
"""Returns the names of resources, from the asker and the decoded request, or one row of it."""


class NameSource(NamedTuple):
    """Says which fields of a request name resources of one kind.

    With `rows` that field of the request is a list, `names` gets one row of it, and a row without the right is refused
    alone. `words` and `when` are the text for the documents.
    """

    kind: ResourceKind
    words: str
    names: Names
    rows: str = ""
    when: str = ""


class Need(NamedTuple):
    """An operation on every resource that a source names. A right to `instead` suffices as well."""

    operation: Operation
    source: NameSource
    instead: tuple[Operation, NameSource] | None = None

    @property
    def words(self) -> str:
        """Returns the need as the documents write it."""
        words = f"{self.operation.name.lower()} on {self.source.words}"
        if self.instead is not None:
            operation, source = self.instead
            words += f", or {operation.name.lower()} on {source.words}"
        return f"{words}, {self.source.when}" if self.source.when else words


class NeedsRow(NamedTuple):
    """All needs of a request, in the order of their checks. `shows` says what its answer omits.

    If it `is_for_replicas`, no right is enough: if clients have to log in, only replicas may send it.
    """

    needs: Sequence[Need] = ()
    shows: str = ""
    is_for_replicas: bool = False

    @property
    def words(self) -> str:
        """Returns the row as the documents write it."""
        words = list(dict.fromkeys(need.words for need in self.needs))
        if self.shows:
            words.append(f"shows only {self.shows}")
        if self.is_for_replicas:
            words.append("the login of a replica")
        return "; ".join(words) or "nothing"


def missing(asker: Asker, need: Need, request: Any) -> tuple[Operation, ResourceKind, str] | None:
    """Returns the first right that `request`, or a row of it, needs and the asker lacks; None if it lacks none."""
    operation, source, instead = need
    for name in source.names(asker, request):
        if not asker.may(operation, source.kind, name) and not _does_as_well(asker, instead, request):
            return operation, source.kind, name
    return None


def _does_as_well(asker: Asker, instead: tuple[Operation, NameSource] | None, request: Any) -> bool:
    if instead is None:
        return False
    operation, source = instead
    names = list(source.names(asker, request))
    return bool(names) and all(asker.may(operation, source.kind, name) for name in names)


def check(asker: Asker, row: NeedsRow, request: Any) -> None:
    """Raises NoRight if the request needs a right that the asker does not have, or ReplicasOnly if it is no replica."""
    broker, peer = asker.broker, asker.peer
    if row.is_for_replicas and peer.user != REPLICA_USER and (broker.settings.sasl or broker.rights is not None):
        broker.denials.tell("denied to %s: %s", peer, stranger := ReplicasOnly(peer.user))
        raise stranger
    error = refusal(asker, row, request)
    if error is not None:
        raise error


def refusal(asker: Asker, row: NeedsRow, request: Any) -> NoRight | None:
    """Returns the NoRight to answer with; None if the asker has all rights that the request needs."""
    if asker.broker.rights is None:
        return None
    for need in row.needs:
        right = missing(asker, need, request)
        if right is not None:
            return asker.denied(*right)
    return None
