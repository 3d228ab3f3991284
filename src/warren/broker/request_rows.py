"""The lists that requests consist of: what is named twice is answered once, and long lists are done piece by piece."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.kafka_errors import Code
from warren.config import LOOP_ROWS_AT_ONCE
from warren.protocol.api import ApiKey
from warren.protocol.kafka_codec import Fields, Values

TWICE: Final = "it is named more than once in the request"


class RequestRows(NamedTuple):
    """The rows of one kind of request, each of which is carried out and answered by itself.

    Kafka's clients name nothing twice. Kafka answers it twice, once, or with INVALID_REQUEST, depending on the request;
    here it is answered once: the last one counts, or it is refused if `refused` says how.
    """

    asked: str
    """The array of the request."""
    answered: str
    """The array of the answer."""
    named_by: tuple[str, ...] | None = ()
    """The fields that say what a row is about, in the request and in the answer. Empty if a row is a name. None if
    answers belong to rows by their order, so that each row is answered."""
    parts: str = ""
    """The array of partitions in a row of the request, if it has one."""
    parts_answered: str = "partitions"
    part: str = ""
    """The field with the number of a partition. Empty if the partition is its number."""
    refused: Values | None = None
    """What else is told of a row, or of a partition, that is refused because it is named twice."""
    is_cut: bool = True
    """Whether many rows are carried out piece by piece. Not if each piece would repeat work that is for all rows."""

    def tidy(self, request: Fields) -> list[Values]:
        """Leaves what was named twice in the request once, or not at all. Returns the answers that refuse it."""
        rows = vars(request).get(self.asked)
        if not rows or self.named_by is None:
            return []
        refused: list[Values] = []
        if len(rows) > 1:
            rows, repeated = self._merged(rows)
            if self.refused is not None:
                refused = [self._refusal(row) for row in repeated]
            vars(request)[self.asked] = rows
        if self.parts:
            for row in rows:
                refused += self._tidy_parts(row)
        return refused

    def _merged(self, rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Each row once, and those that were refused. Partitions of a topic that comes twice are put together."""
        found: dict[Any, Any] = {}
        repeated: dict[Any, Any] = {}
        for row in rows:
            name = self._name(row)
            other = found.get(name)
            if other is not None and self.parts:
                getattr(other, self.parts).extend(getattr(row, self.parts))
                continue
            if other is not None and self.refused is not None:
                repeated[name] = row
            found[name] = row
        return [row for name, row in found.items() if name not in repeated], list(repeated.values())

    def _tidy_parts(self, row: Any) -> list[Values]:
        parts = getattr(row, self.parts)
        if len(parts) < 2:
            return []
        number: Callable[[Any], int] = attrgetter(self.part) if self.part else int
        found = {number(part): part for part in parts}
        if len(found) == len(parts):
            return []
        repeated: set[int] = set()
        if self.refused is not None:
            seen: set[int] = set()
            for part in parts:
                (repeated if number(part) in seen else seen).add(number(part))
        vars(row)[self.parts] = [part for each, part in found.items() if each not in repeated]
        refusals = [{self.part: each, "error_code": Code.INVALID_REQUEST, **(self.refused or {})} for each in repeated]
        return [{**self._names(row), self.parts_answered: refusals}] if refusals else []

    def _name(self, row: Any) -> Any:
        return attrgetter(*self.named_by)(row) if self.named_by else row

    def _names(self, row: Any) -> dict[str, Any]:
        return {name: getattr(row, name) for name in self.named_by} if self.named_by else {"name": row}

    def _refusal(self, row: Any) -> Values:
        return {**self._names(row), "error_code": Code.INVALID_REQUEST, **(self.refused or {})}

    # --- Piece by piece ---

    def count(self, request: Fields) -> int:
        """How many rows and partitions there are to be carried out."""
        rows = vars(request).get(self.asked) or ()
        return len(rows) + (sum(len(getattr(row, self.parts)) for row in rows) if self.parts else 0)

    def pieces(self, request: Fields) -> Iterator[Fields]:
        """The same request again and again, each time with at most LOOP_ROWS_AT_ONCE of its rows and partitions."""
        for rows in self._pieces(vars(request)[self.asked]):
            piece = copy.copy(request)
            vars(piece)[self.asked] = rows
            yield piece

    def _pieces(self, rows: Sequence[Any]) -> Iterator[list[Any]]:
        piece: list[Any] = []
        count = 0
        for row in rows:
            for each in self._cut(row):
                weight = 1 + (len(getattr(each, self.parts)) if self.parts else 0)
                if piece and count + weight > LOOP_ROWS_AT_ONCE:
                    yield piece
                    piece, count = [], 0
                piece.append(each)
                count += weight
        if piece:
            yield piece

    def _cut(self, row: Any) -> Iterator[Any]:
        """The row, or several with some of its partitions each."""
        parts = getattr(row, self.parts) if self.parts else ()
        step = LOOP_ROWS_AT_ONCE - 1
        if len(parts) <= step:
            yield row
            return
        for start in range(0, len(parts), step):
            piece = copy.copy(row)
            vars(piece)[self.parts] = parts[start : start + step]
            yield piece

    def joined(self, answers: Sequence[Values], refused: Sequence[Values]) -> Values:
        """One answer of those to the pieces, and of what was refused; the partitions of a topic in one row."""
        whole = next((answer for answer in answers if answer.get("error_code")), answers[0] if answers else {})
        rows = [row for answer in answers for row in answer.get(self.answered, ())]
        rows += refused
        if self.parts and self.named_by:
            found: dict[tuple[Any, ...], dict[str, Any]] = {}
            for row in rows:
                name = tuple(row.get(field) for field in self.named_by)
                if name in found:
                    found[name][self.parts_answered].extend(row[self.parts_answered])
                else:
                    found[name] = {**row, self.parts_answered: list(row[self.parts_answered])}
            rows = list(found.values())
        return {**whole, self.answered: rows}


_NAMED: Final = ("name",)
_PARTITIONS: Final = RequestRows("topics", "topics", _NAMED, "partitions", part="partition_index")
_CONFIGS: Final = RequestRows(
    "resources", "responses", ("resource_type", "resource_name"), refused={"error_message": TWICE}
)
_DESCRIBED: Final = RequestRows("group_ids", "groups")
_ONCE: Final = {"error_message": TWICE}

_ROWS: Final[Mapping[int, RequestRows]] = MappingProxyType(
    {
        ApiKey.METADATA: RequestRows("topics", "topics", ("name", "topic_id")),
        ApiKey.LIST_OFFSETS: _PARTITIONS._replace(refused={"timestamp": -1, "offset": -1}),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: RequestRows("topics", "topics", ("topic",), "partitions", part="partition"),
        ApiKey.DELETE_RECORDS: _PARTITIONS,
        ApiKey.CREATE_TOPICS: RequestRows("topics", "topics", _NAMED, refused=_ONCE),
        ApiKey.CREATE_PARTITIONS: RequestRows("topics", "results", _NAMED, refused=_ONCE),
        ApiKey.DESCRIBE_CONFIGS: _CONFIGS._replace(answered="results", refused=None),
        ApiKey.ALTER_CONFIGS: _CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIGS,
        # A topic's positions are committed together: a piece of them would be a commit of its own.
        ApiKey.OFFSET_COMMIT: _PARTITIONS._replace(is_cut=False),
        ApiKey.TXN_OFFSET_COMMIT: _PARTITIONS._replace(is_cut=False),
        ApiKey.OFFSET_DELETE: _PARTITIONS,
        # All groups that are stored are looked up once for all that are named.
        ApiKey.DESCRIBE_GROUPS: RequestRows("groups", "groups", is_cut=False),
        ApiKey.DELETE_GROUPS: RequestRows("groups_names", "results", is_cut=False),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _DESCRIBED,
        ApiKey.SHARE_GROUP_DESCRIBE: _DESCRIBED,
        ApiKey.CREATE_ACLS: RequestRows("creations", "results", None),
        ApiKey.DELETE_ACLS: RequestRows("filters", "filter_results", None),
    }
)
_VERSIONED: Final[Mapping[int, tuple[tuple[int, RequestRows], ...]]] = MappingProxyType(
    {
        ApiKey.FIND_COORDINATOR: ((4, RequestRows("coordinator_keys", "coordinators")),),
        ApiKey.LEAVE_GROUP: ((3, RequestRows("members", "members", ("member_id", "group_instance_id"))),),
        ApiKey.DELETE_TOPICS: (
            (6, RequestRows("topics", "responses", ("name", "topic_id"), refused=_ONCE)),
            (0, RequestRows("topic_names", "responses", refused=_ONCE)),
        ),
        ApiKey.OFFSET_FETCH: (
            (8, RequestRows("groups", "groups", ("group_id",))),
            (0, RequestRows("topics", "topics", _NAMED, "partition_indexes", is_cut=False)),
        ),
    }
)
"""Those that have other rows from some version on, the latest first."""


def rows_of(api_key: int, version: int) -> RequestRows | None:
    """What a request of this key and version is a list of; None if it is no list."""
    rows = _ROWS.get(api_key)
    if rows is not None or api_key not in _VERSIONED:
        return rows
    return next((rows for first, rows in _VERSIONED[api_key] if version >= first), None)
