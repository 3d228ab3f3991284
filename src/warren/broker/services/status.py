"""Status: the state of topics and groups, and the counters of the broker, as one JSON document."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from warren.broker.services.hidden_paths import without_paths
from warren.broker.services.memory_budget import MemoryKind
from warren.errors import GONE, NoSuchGroup, NoSuchTopic, WarrenError
from warren.protocol.api_keys import APIS
from warren.queue.group_description import GroupDescription
from warren.queue.state.description import PartitionDescription

if TYPE_CHECKING:
    from warren.broker.quotas.quotas import Quotas
    from warren.broker.services.append_queue import AppendQueue
    from warren.broker.services.leadership import Leadership
    from warren.broker.services.long_polls import LongPolls
    from warren.broker.services.memory_budget import MemoryBudget
    from warren.broker.services.metrics import ApiMetrics, Histogram, Metrics
    from warren.broker.services.pauses import Pauses
    from warren.broker.threads import InThread
    from warren.transaction.store import Store

STANDINGS_LOOK_S: Final = 1.0
"""The state of topics and groups is read at most this often, for all clients together."""

UNKNOWN: Final = "unknown"
MASTER: Final = "master"


class TopicStanding(NamedTuple):
    """One topic. `damage` is the error of a topic whose state cannot be read.

    `passed_over` is, by partition, how often readers of this process skipped a batch because its records cannot be
    read.
    """

    topic: str
    partitions: Sequence[PartitionDescription] = ()
    parked: int = 0
    damage: str | None = None
    passed_over: Sequence[int] = ()

    @property
    def messages(self) -> int:
        return sum(part.end - part.first for part in self.partitions)

    @property
    def size(self) -> int:
        """Returns the bytes on disk."""
        return sum(part.bytes for part in self.partitions)


class StoreStatus(NamedTuple):
    """All topics and all groups, by name."""

    topics: Sequence[TopicStanding]
    groups: Sequence[GroupDescription]


class StatusCache:
    """Reads the state of all topics and groups. For the event loop's thread alone.

    Invariant: one read runs at a time. Requests that arrive during it share the next one, which sees all changes that
    were made before they came.
    """

    def __init__(self, store: Store, in_thread: InThread, tasks: asyncio.TaskGroup) -> None:
        self._store, self._in_thread, self._tasks = store, in_thread, tasks
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[StoreStatus] | None = None
        self._latest: StoreStatus | None = None
        self._looked_s = float("-inf")

    async def look(self) -> StoreStatus:
        """Returns the state of all topics and groups, at most STANDINGS_LOOK_S old."""
        if self._latest is not None and asyncio.get_running_loop().time() < self._looked_s + STANDINGS_LOOK_S:
            return self._latest
        return await self.look_now()

    async def look_now(self) -> StoreStatus:
        """Returns the state, read after this call began, because the client may have changed something before."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._tasks.create_task(self._look(self._next))
        # A client that disconnects must not cancel the read that others wait for.
        return await asyncio.shield(self._next)

    async def _look(self, looking: asyncio.Future[StoreStatus]) -> None:
        async with self._lock:
            # Callers from here on may need a later read.
            self._next = None
            begun_s = asyncio.get_running_loop().time()
            try:
                self._latest = await self._in_thread(standing_of, self._store)
            except Exception as error:  # noqa: BLE001  # The callers get it; other work continues.
                looking.set_exception(error)
                return
            self._looked_s = begun_s
            looking.set_result(self._latest)


def standing_of(store: Store) -> StoreStatus:
    """Returns the current state of all topics and groups.

    A topic that is damaged has the error instead of its state. One that is deleted in the meantime is omitted.
    """
    topics: list[TopicStanding] = []
    groups: list[GroupDescription] = []
    for name in store.topics():
        try:
            topic = store.existing_topic(name)
            description = topic.describe()
            passed_over = [log.inspect().passed_over for log in topic.logs]
            topics.append(TopicStanding(name, description.partitions, topic.delay.count(), passed_over=passed_over))
        except (NoSuchTopic, *GONE):
            continue
        except (WarrenError, OSError) as error:
            topics.append(TopicStanding(name, damage=without_paths(store.path, str(error))))
            continue
        for group in description.groups:
            try:
                groups.append(topic.describe_group(group))
            except (NoSuchGroup, NoSuchTopic, *GONE):
                continue
            except (WarrenError, OSError) as error:
                topics[-1] = topics[-1]._replace(damage=without_paths(store.path, f"group {group}: {error}"))
    return StoreStatus(topics, groups)


# --- The document ---


class Counted(Protocol):
    """The parts of a broker that the document shows."""

    @property
    def store(self) -> Store: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def connections(self) -> Sized: ...

    @property
    def budget(self) -> MemoryBudget: ...

    @property
    def append_queue(self) -> AppendQueue: ...

    @property
    def long_polls(self) -> LongPolls: ...

    @property
    def pauses(self) -> Pauses: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def is_stopping(self) -> bool: ...


def document_of(broker: Counted) -> dict[str, Any]:
    """Returns the document of the broker's state, without the topics and groups.

    Counts are since the start of the broker, times in seconds, sizes in bytes.
    """
    metrics = broker.metrics
    return {
        "store": broker.store.id,
        "uptime_s": metrics.now() - metrics.begun_s,
        "is_stopping": broker.is_stopping,
        "cluster": cluster_document(broker.leadership),
        "connections": {
            "open": len(broker.connections),
            "opened": metrics.connections,
            "refused": metrics.connections_refused,
            "dropped": metrics.connections_dropped,
            "logins_failed": metrics.logins_failed,
            "logins_refused": metrics.logins_refused,
        },
        "waiting": {
            "bytes": broker.budget.sizes[MemoryKind.REQUESTS],
            "puts": broker.append_queue.waiting_count,
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


def cluster_document(leadership: Leadership) -> dict[str, Any] | None:
    """Returns the shard as its master sees it; None without a cluster."""
    standing = leadership.standing
    if standing is None:
        return None
    return {**standing._asdict(), "role": MASTER, "slaves": [slave._asdict() for slave in standing.slaves]}


def standing_document(standing: StoreStatus) -> dict[str, Any]:
    """Returns the topics and groups of the document. For a thread, because there may be thousands of partitions."""
    return {
        "topics": [topic_document(topic) for topic in standing.topics],
        "groups": [group_document(group) for group in standing.groups],
    }


def memory_document(budget: MemoryBudget) -> dict[str, Any]:
    """Returns the memory that clients make the broker hold, by kind, and how often it was too much."""
    return {
        "limit": budget.size_max,
        "bytes": budget.size,
        "kinds": {str(kind): size for kind, size in budget.sizes.items()},
        "waits": budget.waits,
        "refusals": budget.refusals,
        "drops": budget.drops,
    }


def api_name(key: int) -> str:
    """Returns the name of an API key; one name for all keys that are not served."""
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
    """Returns the bound below which this part of the values is; None if there are no values, or no such bound."""
    rank = part * histogram.count
    for bound, count in zip(histogram.bounds, histogram.cumulated(), strict=False):
        if count and count >= rank:
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
