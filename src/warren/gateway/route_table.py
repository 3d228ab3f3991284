"""The table of all routes, with the schemas of the parameters in their paths and queries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from warren.broker.cluster.slave_status import slave_status
from warren.broker.services.status import document_of, standing_document
from warren.gateway.handlers import groups, health, messages, metrics, schedule, status_page, topics
from warren.gateway.handlers.groups import Work
from warren.gateway.http.counts import Counts
from warren.gateway.http.limits import HTTP_LIMIT_MAX, HTTP_WAIT_S_MAX
from warren.gateway.http.routes import HttpHandler, Parameter, Route, Routes
from warren.gateway.http.schemas import NUMBER, Fields, Moment, Plain, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.limits import PARTITIONS_MAX
from warren.settings import Count, Flag, OneOf, Seconds
from warren.storage.format.limits import FILTER_SIZE_MAX

if TYPE_CHECKING:
    from warren.broker.cluster.replica_host import ReplicaHost

SHAPES: Final[Mapping[str, Plain]] = MappingProxyType(
    {
        "topic": topics.NAME,
        "group": groups.GROUP_NAME,
        "partition": Value(Count(0, PARTITIONS_MAX - 1)),
        "number": NUMBER,
        "id": schedule.PARKED_ID,
    }
)
_LIMIT: Final = Parameter(Value(Count(1, HTTP_LIMIT_MAX)), "the largest number of entries")
_ENCODING: Final = Parameter(
    Value(OneOf(messages.ENCODINGS)), "auto: text if the bytes are UTF-8; base64: all bytes as base64"
)
_READING: Final[Mapping[str, Parameter]] = MappingProxyType(
    {
        "partition": Parameter(SHAPES["partition"], "one partition; by default all partitions, merged by time"),
        "number": Parameter(SHAPES["number"], "start at this number"),
        "since": Parameter(Moment(), "start at this time"),
        "backwards": Parameter(Value(Flag()), "the latest first"),
        "tag": Parameter(Text(FILTER_SIZE_MAX, 1), "only messages whose tag matches this filter"),
        "limit": _LIMIT,
        "wait_s": Parameter(Value(Seconds(0, HTTP_WAIT_S_MAX)), "if there is no message, wait this long for one"),
        "encoding": _ENCODING,
    }
)
_TOPIC: Final = "/v1/topics/{topic}"
_GROUP: Final = "/v1/topics/{topic}/groups/{group}"


async def statistics(request: HttpRequest) -> HttpReply:
    """Returns the counters of the broker, and the state of its topics and groups."""
    broker = request.broker
    document, standing = document_of(broker), await broker.standings.look()
    return await broker.aside(lambda: json_reply({**document, **standing_document(standing)}))


def routes_of(openapi: HttpHandler, counts: Counts) -> Routes:
    """Returns all routes. `openapi` is the handler of their document; `counts` holds the numbers for the metrics."""
    return Routes([*_broker_routes(openapi, counts), *_topic_routes(), *_group_routes(Work())], SHAPES)


def slave_routes(host: ReplicaHost, openapi: HttpHandler, counts: Counts) -> Routes:
    """Returns all routes as a replica has them that does not lead. It answers for itself, and else names the master."""
    exposition = metrics.Exposition(counts)

    async def readyz(request: HttpRequest) -> HttpReply:
        return health.slave_readyz(await slave_status(host.node))

    async def show_metrics(request: HttpRequest) -> HttpReply:
        return await exposition.show_slave(host, await slave_status(host.node))

    own: dict[str, HttpHandler] = {"/readyz": readyz, "/metrics": show_metrics}
    routes = [
        route._replace(
            handle=own.get(route.path, route.handle),
            refusal=None if route.is_free or route.path in own else host.node.watch.not_master,
        )
        for route in routes_of(openapi, counts).routes
    ]
    return Routes(routes, SHAPES)


def _broker_routes(openapi: HttpHandler, counts: Counts) -> list[Route]:
    html, text = "text/html; charset=utf-8", metrics.KIND
    return [
        Route("GET", "/", status_page.show, "The status page", kind=html),
        _health("/healthz", health.healthz, "Is the broker alive?", health.HEALTH),
        _health("/readyz", health.readyz, "Can the broker serve requests?", health.READINESS),
        Route("GET", "/metrics", metrics.Exposition(counts).show, "Metrics for Prometheus", kind=text, is_spared=True),
        Route("GET", "/openapi.json", openapi, "This document", is_free=True),
        Route("GET", "/v1/statistics", statistics, "Counters of the broker, its topics and groups"),
    ]


def _topic_routes() -> list[Route]:
    at_messages, waiting = f"{_TOPIC}/messages", f"{_TOPIC}/scheduled"
    after = Parameter(schedule.PARKED_ID, "start after the message with this id")
    return [
        Route("GET", "/v1/topics", topics.list_topics, "All topics", answer=topics.TOPICS),
        Route(
            "POST",
            "/v1/topics",
            topics.create_topic,
            "Create a topic",
            body=topics.CREATION,
            answer=topics.DESCRIPTION,
            status=201,
            errors=(409,),
        ),
        _on("GET", _TOPIC, topics.describe_topic, "A topic")._replace(answer=topics.DESCRIPTION),
        _on("PATCH", _TOPIC, topics.configure_topic, "Change settings of a topic")._replace(
            body=topics.CHANGES, answer=topics.DESCRIPTION
        ),
        _on("DELETE", _TOPIC, topics.delete_topic, "Delete a topic")._replace(status=204),
        _on("POST", at_messages, messages.put, "Put messages")._replace(
            body=messages.PUT, answer=messages.PUT_ANSWER, status=201, errors=(404, 507)
        ),
        _on("GET", at_messages, messages.read, "Read messages")._replace(
            query=_READING, answer=messages.READ_ANSWER, errors=(404, 410)
        ),
        _on("GET", at_messages + "/{partition}/{number}", messages.read_one, "Read one message")._replace(
            query=MappingProxyType({"encoding": _ENCODING}), answer=messages.READ_FIELDS, errors=(404, 410)
        ),
        _on("GET", waiting, schedule.list_scheduled, "Parked (delayed) messages")._replace(
            query=MappingProxyType({"limit": _LIMIT, "after": after}), answer=schedule.SCHEDULED
        ),
        _on("DELETE", waiting + "/{id}", schedule.cancel_scheduled, "Cancel a parked message")._replace(
            answer=schedule.CANCELLED
        ),
    ]


def _group_routes(work: Work) -> list[Route]:
    settled = {"status": 204, "errors": (404, 409)}
    dead = f"{_GROUP}/dead"
    routes = [
        Route("GET", "/v1/groups", groups.list_groups, "All groups", answer=groups.GROUPS),
        _on("GET", f"{_TOPIC}/groups", groups.list_groups, "Groups of a topic"),
        _on("GET", _GROUP, groups.describe_group, "A group and its lag"),
        _on("PUT", _GROUP, groups.configure_group, "Create or change a queue group"),
        _on("DELETE", _GROUP, groups.delete_group, "Delete a group"),
        _on("POST", f"{_GROUP}/take", work.take, "Take messages of a queue group"),
        _on("POST", f"{_GROUP}/ack", work.ack, "Acknowledge messages"),
        _on("POST", f"{_GROUP}/nack", work.nack, "Give failed messages back"),
        _on("POST", f"{_GROUP}/reject", work.reject, "Make a waiting message a dead letter"),
        _on("POST", f"{_GROUP}/extend", work.extend, "Extend leases"),
        _on("GET", dead, groups.list_dead, "Dead letters"),
        _on("POST", f"{dead}/redrive", groups.redrive, "Put dead letters back"),
    ]
    more: dict[str, dict[str, object]] = {
        "GET /v1/topics/{topic}/groups": {"answer": groups.GROUPS},
        f"GET {_GROUP}": {"answer": groups.GROUP},
        f"PUT {_GROUP}": {"body": groups.SETTINGS, "answer": groups.GROUP, "errors": (404, 409)},
        f"DELETE {_GROUP}": {"status": 204},
        f"POST {_GROUP}/take": {"body": groups.TAKE, "answer": groups.TAKEN, "errors": (404, 409)},
        f"POST {_GROUP}/ack": {"body": groups.ACK, **settled},
        f"POST {_GROUP}/nack": {"body": groups.NACK, **settled},
        f"POST {_GROUP}/reject": {"body": groups.REJECT, **settled},
        f"POST {_GROUP}/extend": {"body": groups.EXTEND, **settled},
        f"GET {dead}": {"query": MappingProxyType({"limit": _LIMIT}), "answer": groups.DEAD},
        f"POST {dead}/redrive": {"body": groups.REDRIVE, "answer": groups.REDRIVEN, "errors": (404, 409)},
    }
    return [route._replace(**more.get(f"{route.method} {route.path}", {})) for route in routes]  # type: ignore[arg-type]


def _health(path: str, handle: HttpHandler, summary: str, answer: Fields) -> Route:
    return Route("GET", path, handle, summary, answer=answer, is_free=True, is_spared=True)


def _on(method: str, path: str, handle: HttpHandler, summary: str) -> Route:
    """Returns a route whose path names a resource, which may not exist."""
    return Route(method, path, handle, summary, errors=(404,))
