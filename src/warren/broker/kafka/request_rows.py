"""The rows of requests: duplicates are answered once, and long lists are handled piece by piece."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from warren.broker.kafka.errors import Code
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka_messages import (
    AlterConfigsResponse,
    ConsumerGroupDescribeResponse,
    CreateAclsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteAclsResponse,
    DeleteGroupsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    IncrementalAlterConfigsResponse,
    LeaveGroupResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
    ShareGroupDescribeResponse,
    TxnOffsetCommitResponse,
)
from warren.protocol.wire_struct import WireStruct

AnyRequest = TypeVar("AnyRequest", bound=WireStruct)
TWICE: Final = "it is named more than once in the request"


class RequestRows(NamedTuple):
    """The rows of one kind of request, each of which is handled and answered by itself.

    Kafka's clients name nothing twice. Kafka answers a duplicate twice, once, or with INVALID_REQUEST, depending on the
    request. Here it is answered once: the last one counts, or it is refused if `refused` says how.
    """

    response: type[WireStruct]
    requested: str
    """The array of the request."""
    answered: str
    """The array of the answer."""
    named_by: tuple[str, ...] | None = ()
    """The fields that identify a row, in the request and in the answer. Empty if a row is a name. None if
    answers belong to rows by their order, so that each row is answered."""
    parts: str = ""
    """The array of partitions in a row of the request, if it has one."""
    parts_answered: str = "partitions"
    part: str = ""
    """The field with the number of a partition. Empty if the partition is its number."""
    refused: Mapping[str, Any] | None = None
    """Further fields of the answer for a duplicate row or partition that is refused."""
    is_cut: bool = True
    """Whether many rows are handled piece by piece. Not if each piece would repeat work that is for all rows."""

    def tidy(self, request: WireStruct) -> list[WireStruct]:
        """Removes duplicates from the request. Returns the answers that refuse them."""
        rows = getattr(request, self.requested)
        if not rows or self.named_by is None:
            return []
        refused: list[WireStruct] = []
        if len(rows) > 1:
            rows, repeated = self._merged(rows)
            if self.refused is not None:
                refused = [self._refusal(row) for row in repeated]
            setattr(request, self.requested, rows)
        if self.parts:
            for row in rows:
                refused += self._tidy_parts(row)
        return refused

    def _merged(self, rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Returns each row once, and the refused rows. Merges the partitions of a topic that comes twice."""
        by_name: dict[Any, Any] = {}
        repeated: dict[Any, Any] = {}
        for row in rows:
            name = self._name(row)
            other = by_name.get(name)
            if other is not None and self.parts:
                getattr(other, self.parts).extend(getattr(row, self.parts))
                continue
            if other is not None and self.refused is not None:
                repeated[name] = row
            by_name[name] = row
        return [row for name, row in by_name.items() if name not in repeated], list(repeated.values())

    def _tidy_parts(self, row: Any) -> list[WireStruct]:
        parts = getattr(row, self.parts)
        if len(parts) < 2:
            return []
        number: Callable[[Any], int] = attrgetter(self.part) if self.part else int
        by_number = {number(part): part for part in parts}
        if len(by_number) == len(parts):
            return []
        repeated: set[int] = set()
        if self.refused is not None:
            numbers: set[int] = set()
            for part in parts:
                (repeated if number(part) in numbers else numbers).add(number(part))
        setattr(row, self.parts, [part for each, part in by_number.items() if each not in repeated])
        if not repeated:
            return []
        kind = self._row_class
        part_kind = kind.structs[self.parts_answered]
        refusals = [
            part_kind(**{self.part: each, "error_code": Code.INVALID_REQUEST, **(self.refused or {})})
            for each in repeated
        ]
        return [kind(**{**self._names(row), self.parts_answered: refusals})]

    @property
    def _row_class(self) -> type[WireStruct]:
        return self.response.structs[self.answered]

    def _name(self, row: Any) -> Any:
        return attrgetter(*self.named_by)(row) if self.named_by else row

    def _names(self, row: Any) -> dict[str, Any]:
        return {name: getattr(row, name) for name in self.named_by} if self.named_by else {"name": row}

    def _refusal(self, row: Any) -> WireStruct:
        return self._row_class(**{**self._names(row), "error_code": Code.INVALID_REQUEST, **(self.refused or {})})

    # --- Piece by piece ---

    def count(self, request: WireStruct) -> int:
        """Returns the number of rows and partitions."""
        rows = getattr(request, self.requested) or ()
        return len(rows) + (sum(len(getattr(row, self.parts)) for row in rows) if self.parts else 0)

    def pieces(self, request: AnyRequest) -> Iterator[AnyRequest]:
        """Yields copies of the request, each with at most LOOP_ROWS_AT_ONCE of its rows and partitions."""
        for rows in self._pieces(getattr(request, self.requested)):
            piece = copy.copy(request)
            setattr(piece, self.requested, rows)
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
        """Yields the row, or several rows with some of its partitions each."""
        parts = getattr(row, self.parts) if self.parts else ()
        step = LOOP_ROWS_AT_ONCE - 1
        if len(parts) <= step:
            yield row
            return
        for start in range(0, len(parts), step):
            piece = copy.copy(row)
            setattr(piece, self.parts, parts[start : start + step])
            yield piece

    def joined(self, answers: Sequence[WireStruct], refused: Sequence[WireStruct]) -> WireStruct:
        """Returns one answer from those to the pieces and the refused rows, with one row per topic."""
        first = answers[0] if answers else self.response()
        whole = next((answer for answer in answers if getattr(answer, "error_code", Code.NONE)), first)
        rows = [row for answer in answers for row in getattr(answer, self.answered)]
        rows += refused
        if self.parts and self.named_by:
            by_name: dict[Any, Any] = {}
            for row in rows:
                other = by_name.setdefault(self._name(row), row)
                if other is not row:
                    parts = [*getattr(other, self.parts_answered), *getattr(row, self.parts_answered)]
                    setattr(other, self.parts_answered, parts)
            rows = list(by_name.values())
        setattr(whole, self.answered, rows)
        return whole


_NAMED: Final = ("name",)
_ONCE: Final = {"error_message": TWICE}


def _partitions(
    response: type[WireStruct], refused: Mapping[str, Any] | None = None, *, is_cut: bool = True
) -> RequestRows:
    return RequestRows(
        response, "topics", "topics", _NAMED, "partitions", part="partition_index", refused=refused, is_cut=is_cut
    )


def _configs(response: type[WireStruct]) -> RequestRows:
    return RequestRows(response, "resources", "responses", ("resource_type", "resource_name"), refused=_ONCE)


_ROWS: Final[Mapping[int, RequestRows]] = MappingProxyType(
    {
        ApiKey.METADATA: RequestRows(MetadataResponse, "topics", "topics", ("name", "topic_id")),
        ApiKey.LIST_OFFSETS: _partitions(ListOffsetsResponse, {"timestamp": -1, "offset": -1}),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: RequestRows(
            OffsetForLeaderEpochResponse, "topics", "topics", ("topic",), "partitions", part="partition"
        ),
        ApiKey.DELETE_RECORDS: _partitions(DeleteRecordsResponse),
        ApiKey.CREATE_TOPICS: RequestRows(CreateTopicsResponse, "topics", "topics", _NAMED, refused=_ONCE),
        ApiKey.CREATE_PARTITIONS: RequestRows(CreatePartitionsResponse, "topics", "results", _NAMED, refused=_ONCE),
        ApiKey.DESCRIBE_CONFIGS: _configs(DescribeConfigsResponse)._replace(answered="results", refused=None),
        ApiKey.ALTER_CONFIGS: _configs(AlterConfigsResponse),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(IncrementalAlterConfigsResponse),
        # A topic's positions are committed together, so they are not cut into several commits.
        ApiKey.OFFSET_COMMIT: _partitions(OffsetCommitResponse, is_cut=False),
        ApiKey.TXN_OFFSET_COMMIT: _partitions(TxnOffsetCommitResponse, is_cut=False),
        ApiKey.OFFSET_DELETE: _partitions(OffsetDeleteResponse),
        # All stored groups are listed once for all names.
        ApiKey.DESCRIBE_GROUPS: RequestRows(DescribeGroupsResponse, "groups", "groups", is_cut=False),
        ApiKey.DELETE_GROUPS: RequestRows(DeleteGroupsResponse, "groups_names", "results", is_cut=False),
        ApiKey.CONSUMER_GROUP_DESCRIBE: RequestRows(ConsumerGroupDescribeResponse, "group_ids", "groups"),
        ApiKey.SHARE_GROUP_DESCRIBE: RequestRows(ShareGroupDescribeResponse, "group_ids", "groups"),
        ApiKey.CREATE_ACLS: RequestRows(CreateAclsResponse, "creations", "results", None),
        ApiKey.DELETE_ACLS: RequestRows(DeleteAclsResponse, "filters", "filter_results", None),
    }
)
_VERSIONED: Final[Mapping[int, tuple[tuple[int, RequestRows], ...]]] = MappingProxyType(
    {
        ApiKey.FIND_COORDINATOR: ((4, RequestRows(FindCoordinatorResponse, "coordinator_keys", "coordinators")),),
        ApiKey.LEAVE_GROUP: (
            (3, RequestRows(LeaveGroupResponse, "members", "members", ("member_id", "group_instance_id"))),
        ),
        ApiKey.DELETE_TOPICS: (
            (6, RequestRows(DeleteTopicsResponse, "topics", "responses", ("name", "topic_id"), refused=_ONCE)),
            (0, RequestRows(DeleteTopicsResponse, "topic_names", "responses", refused=_ONCE)),
        ),
        ApiKey.OFFSET_FETCH: (
            (8, RequestRows(OffsetFetchResponse, "groups", "groups", ("group_id",))),
            (0, RequestRows(OffsetFetchResponse, "topics", "topics", _NAMED, "partition_indexes", is_cut=False)),
        ),
    }
)
"""Requests whose rows differ from some version on, the latest first."""


def topics_in(request: WireStruct) -> Iterator[str | None]:
    """Yields the topics that a request names in its rows, and in the rows of its groups and transactions."""
    for row in getattr(request, "topics", None) or ():
        yield row if isinstance(row, str) else getattr(row, "name", None) or getattr(row, "topic", None)
    for rows in ("groups", "transactions"):
        for row in getattr(request, rows, None) or ():
            if isinstance(row, WireStruct):
                yield from topics_in(row)


def rows_of(api_key: int, version: int) -> RequestRows | None:
    """Returns the description of the rows of a request of this key and version; None if it is not a list."""
    rows = _ROWS.get(api_key)
    if rows is not None or api_key not in _VERSIONED:
        return rows
    return next((rows for first, rows in _VERSIONED[api_key] if version >= first), None)
