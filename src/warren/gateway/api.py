"""The table of all routes, with the shapes of what stands in their paths."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.statistics import document_of, standing_document
from warren.config import FILTER_SIZE_MAX, HTTP_LIMIT_MAX, HTTP_WAIT_S_MAX, PARTITIONS_MAX
from warren.gateway import groups, health, page, parked, prometheus, putting, reading, topics
from warren.gateway.counts import Counts
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.groups import Work
from warren.gateway.json_messages import ENCODINGS, NUMBER_MAX, READ_FIELDS
from warren.gateway.routes import Handler, Parameter, Route, Routes
from warren.gateway.shapes import Fields, Moment, Plain, Seconds, Text, Truth, Whole

SHAPES: Final[Mapping[str, Plain]] = MappingProxyType(
    {
        "topic": topics.NAME,
        "group": groups.GROUP_NAME,
        "partition": Whole(0, PARTITIONS_MAX - 1),
        "number": Whole(0, NUMBER_MAX),
        "id": parked.PARKED_ID,
    }
)
_LIMIT: Final = Parameter(Whole(1, HTTP_LIMIT_MAX), "how many at most")
_ENCODING: Final = Parameter(Text(6, choices=ENCODINGS), "bytes as text where they are UTF-8, or all as base64")
_READING: Final[Mapping[str, Parameter]] = MappingProxyType(
    {
        "partition": Parameter(SHAPES["partition"], "one partition; all by time, if there are more and none is named"),
        "number": Parameter(SHAPES["number"], "from this number on, or down from it"),
        "since": Parameter(Moment(), "from this time on, or down from it"),
        "backwards": Parameter(Truth(), "the latest first"),
        "tag": Parameter(Text(FILTER_SIZE_MAX, 1), "those whose tag passes this filter"),
        "limit": _LIMIT,
        "wait_s": Parameter(Seconds(HTTP_WAIT_S_MAX), "where there is none, wait so long for one"),
        "encoding": _ENCODING,
    }
)
_TOPIC: Final = "/v1/topics/{topic}"
_GROUP: Final = "/v1/topics/{topic}/groups/{group}"


async def statistics(asked: Asked) -> Reply:
    """What the broker has done and holds, and how its topics and groups stand."""
    broker = asked.broker
    document, standing = document_of(broker), await broker.standings.look()
    return await broker.aside(lambda: json_reply({**document, **standing_document(standing)}))


def routes_of(openapi: Handler, counts: Counts) -> Routes:
    """Everything that is served; `openapi` tells of it, and `counts` how often."""
    return Routes([*_broker_routes(openapi, counts), *_topic_routes(), *_group_routes(Work())], SHAPES)


def _broker_routes(openapi: Handler, counts: Counts) -> list[Route]:
    html, text = "text/html; charset=utf-8", prometheus.KIND
    return [
        Route("GET", "/", page.show, "A page for people", kind=html),
        _health("/healthz", health.healthz, "Is it alive?", health.HEALTH),
        _health("/readyz", health.readyz, "Does it serve?", health.READINESS),
        Route("GET", "/metrics", prometheus.Exposition(counts).show, "For Prometheus", kind=text, is_spared=True),
        Route("GET", "/openapi.json", openapi, "This document", is_free=True),
        Route("GET", "/v1/statistics", statistics, "What the broker has done"),
    ]


def _topic_routes() -> list[Route]:
    messages, waiting = f"{_TOPIC}/messages", f"{_TOPIC}/scheduled"
    after = Parameter(parked.PARKED_ID, "those behind the one with this id")
    return [
        Route("GET", "/v1/topics", topics.list_topics, "All topics", answer=topics.TOPICS),
        Route(
            "POST",
            "/v1/topics",
            topics.create_topic,
            "Make a topic",
            body=topics.CREATION,
            answer=topics.DESCRIPTION,
            status=201,
            told=(409,),
        ),
        _on("GET", _TOPIC, topics.describe_topic, "A topic")._replace(answer=topics.DESCRIPTION),
        _on("PATCH", _TOPIC, topics.configure_topic, "Change settings of a topic")._replace(
            body=topics.CHANGES, answer=topics.DESCRIPTION
        ),
        _on("DELETE", _TOPIC, topics.delete_topic, "Remove a topic")._replace(status=204),
        _on("POST", messages, putting.put, "Put messages")._replace(
            body=putting.PUT, answer=putting.PUT_ANSWER, status=201, told=(404, 507)
        ),
        _on("GET", messages, reading.read, "Read messages")._replace(
            query=_READING, answer=reading.READ_ANSWER, told=(404, 410)
        ),
        _on("GET", messages + "/{partition}/{number}", reading.read_one, "Read one message")._replace(
            query=MappingProxyType({"encoding": _ENCODING}), answer=READ_FIELDS, told=(404, 410)
        ),
        _on("GET", waiting, parked.list_scheduled, "Messages that are not due yet")._replace(
            query=MappingProxyType({"limit": _LIMIT, "after": after}), answer=parked.SCHEDULED
        ),
        _on("DELETE", waiting + "/{id}", parked.cancel_scheduled, "Cancel a delayed message")._replace(
            answer=parked.CANCELLED
        ),
    ]


def _group_routes(work: Work) -> list[Route]:
    settled = {"status": 204, "told": (404, 409)}
    dead = f"{_GROUP}/dead"
    found = [
        Route("GET", "/v1/groups", groups.list_groups, "All groups", answer=groups.GROUPS),
        _on("GET", f"{_TOPIC}/groups", groups.list_groups, "Groups of a topic"),
        _on("GET", _GROUP, groups.describe_group, "A group, and how far behind it is"),
        _on("PUT", _GROUP, groups.configure_group, "Make or change a queue group"),
        _on("DELETE", _GROUP, groups.delete_group, "Remove a group"),
        _on("POST", f"{_GROUP}/take", work.take, "Take messages of a queue group"),
        _on("POST", f"{_GROUP}/ack", work.ack, "Acknowledge messages"),
        _on("POST", f"{_GROUP}/nack", work.nack, "Give messages back that failed"),
        _on("POST", f"{_GROUP}/extend", work.extend, "Lease messages for longer"),
        _on("GET", dead, parked.list_dead, "Dead letters"),
        _on("POST", f"{dead}/redrive", parked.redrive, "Put dead letters back"),
    ]
    more: dict[str, dict[str, object]] = {
        "GET /v1/topics/{topic}/groups": {"answer": groups.GROUPS},
        f"GET {_GROUP}": {"answer": groups.GROUP},
        f"PUT {_GROUP}": {"body": groups.GROUP_OPTIONS, "answer": groups.GROUP, "told": (404, 409)},
        f"DELETE {_GROUP}": {"status": 204},
        f"POST {_GROUP}/take": {"body": groups.TAKE, "answer": groups.TAKEN, "told": (404, 409)},
        f"POST {_GROUP}/ack": {"body": groups.ACK, **settled},
        f"POST {_GROUP}/nack": {"body": groups.NACK, **settled},
        f"POST {_GROUP}/extend": {"body": groups.EXTEND, **settled},
        f"GET {dead}": {"query": MappingProxyType({"limit": _LIMIT}), "answer": parked.DEAD},
        f"POST {dead}/redrive": {"body": parked.REDRIVE, "answer": parked.REDRIVEN, "told": (404, 409)},
    }
    return [route._replace(**more.get(f"{route.method} {route.path}", {})) for route in found]  # type: ignore[arg-type]


def _health(path: str, handle: Handler, what: str, answer: Fields) -> Route:
    return Route("GET", path, handle, what, answer=answer, is_free=True, is_spared=True)


def _on(method: str, path: str, handle: Handler, what: str) -> Route:
    """A route that something is named in, which may not be there."""
    return Route(method, path, handle, what, told=(404,))
