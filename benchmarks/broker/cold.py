"""Requests for many partitions, for a broker that has not used them yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.broker.largest import LATEST, NAMED, Asked, fetched, produced
from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from warren.protocol.api_keys import APIS, ApiKey

GROUP: Final = "cold"
MAX_TIMESTAMP: Final = -3
OFFSET_VERSION: Final = 7
"""A version of OffsetCommit and OffsetFetch that has one group, and no member of it."""


def kafka_requests(topics: Mapping[str, int]) -> Iterator[Asked]:
    """Requests that name these topics with all of their partitions."""
    tiny = batch_of([(None, b"x", ())])
    parts = {name: range(count) for name, count in topics.items()}

    def rows(**fields: Any) -> dict[str, Any]:
        named = {name: [{"partition_index": number, **fields} for number in numbers] for name, numbers in parts.items()}
        return {"topics": [{"name": name, "partitions": each} for name, each in named.items()]}

    yield _request(ApiKey.PRODUCE, produced({name: dict.fromkeys(each, tiny) for name, each in parts.items()}))
    yield _request(ApiKey.FETCH, fetched(topics))
    yield _request(ApiKey.LIST_OFFSETS, rows(timestamp=LATEST))
    yield _request(ApiKey.LIST_OFFSETS, rows(timestamp=MAX_TIMESTAMP), "largest time of partitions")
    yield _request(ApiKey.METADATA, {"topics": [{"name": name} for name in topics]})
    committed = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "member_id": ""}
    yield _request(ApiKey.OFFSET_COMMIT, {**committed, **rows(committed_offset=0)}, version=OFFSET_VERSION)
    topic_rows = [{"name": name, "partition_indexes": list(each)} for name, each in parts.items()]
    yield _request(ApiKey.OFFSET_FETCH, {"group_id": GROUP, "topics": topic_rows}, version=OFFSET_VERSION)


def _request(key: ApiKey, values: Mapping[str, Any], what: str = "partitions", version: int | None = None) -> Asked:
    api = APIS[key]
    version = NAMED.get(key, api.last) if version is None else version
    return Asked(api, version, what, encode_request(key, version, values))


def http_requests(topic: str) -> Iterator[tuple[str, str]]:
    """Routes over HTTP, and the targets of requests for the topic."""
    yield "GET /v1/topics", "/v1/topics"
    yield "GET /v1/topics/{topic}", f"/v1/topics/{topic}"
    yield "GET /v1/topics/{topic}/messages", f"/v1/topics/{topic}/messages"
    yield "GET /v1/topics/{topic}/groups", f"/v1/topics/{topic}/groups"
