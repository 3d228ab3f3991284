"""Statistics: what a broker has done and holds, and how its topics and groups stand, as one JSON document."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from warren.broker.budget import Kind
from warren.protocol.api import APIS

if TYPE_CHECKING:
    from warren.broker.broker import Broker
    from warren.broker.budget import Budget
    from warren.broker.call import Call
    from warren.broker.metrics import ApiMetrics, Histogram
    from warren.broker.standings import Standing, TopicStanding
    from warren.protocol.kafka_codec import Fields, Values
    from warren.queue.group_description import GroupDescription

UNKNOWN: Final = "unknown"


async def statistics(call: Call, asked: Fields) -> Values:
    """Our own call for them; with `is_standing_wanted` also how topics and groups stand."""
    document = document_of(call.broker)
    if not asked.is_standing_wanted:
        return {"statistics": json.dumps(document)}
    standing = await call.broker.standings.look()
    text = await call.broker.aside(lambda: json.dumps({**document, **standing_document(standing)}))
    return {"statistics": text}


def document_of(broker: Broker) -> dict[str, Any]:
    """The document without how topics and groups stand.

    Counts are since the start of the broker, times in seconds, sizes in bytes.
    """
    metrics = broker.metrics
    return {
        "store": broker.store.id,
        "uptime_s": metrics.now() - metrics.begun_s,
        "is_stopping": broker.is_stopping,
        "connections": {
            "open": len(broker.connections),
            "opened": metrics.connections,
            "refused": metrics.connections_refused,
            "dropped": metrics.connections_dropped,
            "logins_failed": metrics.logins_failed,
            "logins_refused": metrics.logins_refused,
        },
        "waiting": {
            "bytes": broker.budget.sizes[Kind.REQUESTS],
            "puts": broker.door.waiting_count,
            "long_polls": broker.long_polls.parked_count,
        },
        "loop": {"longest_pause_s": broker.pauses.longest_s, "p99_pause_s": quantile(broker.pauses.seconds, 0.99)},
        "memory": memory_document(broker.budget),
        "puts": {
            "count": metrics.puts,
            "commits": metrics.commit_puts.count,
            "commits_failed": metrics.commits_failed,
            "puts_committed": round(metrics.commit_puts.sum),
        },
        "quotas": [
            {"user": user, "throttled": round(count), "throttled_s": seconds, "refused": round(refused)}
            for user, (count, seconds, refused) in sorted(broker.quotas.throttled.items())
        ],
        "requests": [_requests(key, api) for key, api in sorted(metrics.apis.items())],
    }


def standing_document(standing: Standing) -> dict[str, Any]:
    """The rest of the document: for a thread, since there may be thousands of partitions."""
    return {
        "topics": [topic_document(topic) for topic in standing.topics],
        "groups": [group_document(group) for group in standing.groups],
    }


def memory_document(budget: Budget) -> dict[str, Any]:
    """What clients make the broker hold, by kind, and how often that was too much."""
    return {
        "limit": budget.size_max,
        "bytes": budget.size,
        "kinds": {str(kind): size for kind, size in budget.sizes.items()},
        "waits": budget.waits,
        "refusals": budget.refusals,
        "drops": budget.drops,
    }


def api_name(key: int) -> str:
    """What an API key is called; one name for all that are not served."""
    return APIS[key].name if key in APIS else UNKNOWN


def _requests(key: int, api: ApiMetrics) -> dict[str, Any]:
    return {
        "api": api_name(key),
        "count": api.requests,
        "errors": api.errors,
        "bytes_in": api.size_in,
        "bytes_out": api.size_out,
        "seconds": api.seconds.sum,
        "p50_s": quantile(api.seconds, 0.5),
        "p99_s": quantile(api.seconds, 0.99),
    }


def quantile(histogram: Histogram, part: float) -> float | None:
    """The bound up to which this part of the values fell; None where there are none, or it lies above all bounds."""
    wanted = part * histogram.count
    for bound, count in zip(histogram.bounds, histogram.cumulated(), strict=False):
        if count and count >= wanted:
            return bound
    return None


def topic_document(topic: TopicStanding) -> dict[str, Any]:
    parts = [
        {"partition": part.partition, "first": part.first, "end": part.end, "bytes": part.bytes}
        for part in topic.partitions
    ]
    return {
        "topic": topic.topic,
        "messages": topic.messages,
        "bytes": topic.size,
        "parked": topic.parked,
        "damage": topic.damage,
        "partitions": parts,
    }


def group_document(group: GroupDescription) -> dict[str, Any]:
    return {
        "topic": group.topic,
        "group": group.group,
        "mode": group.settings.mode,
        "tag": group.settings.tag,
        "members": None if group.members is None else len(group.members),
        "leased": group.leased,
        "behind": group.behind,
        "partitions": [dataclasses.asdict(part) for part in group.partitions],
    }
