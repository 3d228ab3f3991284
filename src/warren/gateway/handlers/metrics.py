"""Metrics for Prometheus, made from the broker's counters at the time of the request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from warren.broker.services.status import MASTER, api_name
from warren.gateway.http.types import HttpReply, HttpRequest

if TYPE_CHECKING:
    from prometheus_client import Metric

    from warren.broker.cluster.slave_status import SlaveStatus
    from warren.broker.services.leadership import ShardStanding
    from warren.broker.services.memory_budget import MemoryBudget
    from warren.broker.services.metrics import Histogram
    from warren.broker.services.status import StoreStatus
    from warren.gateway.http.counts import Counts
    from warren.gateway.http.services import GatewayServices, ProcessServices

KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
INFINITE: Final = "+Inf"


class Exposition:
    """The handlers of `GET /metrics`: all metrics, including those of the process."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)

    async def show(self, request: HttpRequest) -> HttpReply:
        """Returns the text format of Prometheus. The event loop reads the counters; a thread does the rest."""
        standing = await request.broker.standings.look()
        families = [*_families(request.broker), *_http_families(self._counts)]
        text = await request.broker.aside(lambda: self._text([*families, *_standing_families(standing)]))
        return HttpReply(status=200, body=text, kind=KIND)

    async def show_slave(self, host: ProcessServices, status: SlaveStatus) -> HttpReply:
        """Returns the same of a replica that does not lead: its process and how far it is, but no topics or groups."""
        families = [*_process_families(host), *_http_families(self._counts)]
        text = await host.aside(lambda: self._text([*families, *slave_families(status)]))
        return HttpReply(status=200, body=text, kind=KIND)

    def _text(self, families: list[Metric]) -> bytes:
        gathered = CollectorRegistry(auto_describe=False)
        gathered.register(_Gathered(families))
        return generate_latest(gathered) + generate_latest(self._process)


class _Gathered(Collector):
    """Returns metric families that were built before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _process_families(broker: ProcessServices) -> Iterator[Metric]:
    """Yields what a replica has, too, that does not lead."""
    metrics = broker.metrics
    yield _gauge("warren_uptime_seconds", "Seconds since the broker began to serve", metrics.now() - metrics.begun_s)
    yield _gauge("warren_stopping", "1 while the broker stops", int(broker.is_stopping))
    yield _gauge("warren_connections", "Connections that are open", len(broker.connections))
    yield _counter("warren_connections_opened", "Connections that were accepted", metrics.connections)
    yield _counter(
        "warren_connections_refused", "Connections that were refused because of a limit", metrics.connections_refused
    )
    yield _counter(
        "warren_connections_dropped",
        "Idle connections that were closed to make room for others",
        metrics.connections_dropped,
    )
    yield _counter("warren_logins_failed", "Logins with a wrong user or password", metrics.logins_failed)
    yield _counter(
        "warren_logins_refused",
        "Logins that were refused unchecked because there were too many",
        metrics.logins_refused,
    )
    yield from _memory_families(broker.budget)
    yield from _quota_families(broker)
    yield from _request_families(broker)


def _families(broker: GatewayServices) -> Iterator[Metric]:
    metrics = broker.metrics
    yield from _process_families(broker)
    yield from cluster_families(broker.leadership.standing)
    yield _gauge("warren_waiting_puts", "Puts that wait for a sync", broker.append_queue.waiting_count)
    yield _gauge("warren_long_polls", "Requests that wait for messages", broker.long_polls.parked_count)
    yield _counter("warren_puts", "Puts to partitions", metrics.puts)
    yield _counter("warren_commits_failed", "Commits that failed", metrics.commits_failed)
    yield _gauge("warren_logs_closed", "Logs that accept no puts since a sync failed", len(broker.failed_logs))
    shared = HistogramMetricFamily("warren_commit_puts", "Puts that shared one commit, which is one sync")
    shared.add_metric([], _buckets(metrics.commit_puts), metrics.commit_puts.sum)
    yield shared
    paused = HistogramMetricFamily("warren_event_loop_pause_seconds", "How late the event loop ran a timer")
    paused.add_metric([], _buckets(broker.pauses.seconds), broker.pauses.seconds.sum)
    yield paused
    yield _gauge(
        "warren_event_loop_longest_pause_seconds", "The longest pause since the start", broker.pauses.longest_s
    )


def cluster_families(standing: ShardStanding | None) -> Iterator[Metric]:
    """Yields what a master knows of its shard; nothing without a cluster."""
    if standing is None:
        return
    yield from _shard_families(standing, MASTER)
    labels, insync = ["replica"], _insync_family()
    behind = GaugeMetricFamily("warren_cluster_slave_behind", "Changes that a slave does not have yet", labels=labels)
    silent = GaugeMetricFamily("warren_cluster_slave_silent_seconds", "Since a slave has sent a fetch", labels=labels)
    for slave in standing.slaves:
        name = [str(slave.replica)]
        insync.add_metric(name, int(slave.is_insync))
        if slave.behind >= 0:
            behind.add_metric(name, slave.behind)
        if slave.silent_ms >= 0:
            silent.add_metric(name, slave.silent_ms / 1000)
    yield from (insync, behind, silent)


def slave_families(status: SlaveStatus) -> Iterator[Metric]:
    """Yields what a replica that does not lead knows of itself."""
    yield from _shard_families(status, status.role)
    insync = _insync_family()
    insync.add_metric([str(status.replica)], int(status.is_insync))
    yield insync
    yield _gauge("warren_cluster_following", "1 if this slave has caught up with its master", int(status.is_following))
    labels = ["log"]
    end = GaugeMetricFamily(
        "warren_cluster_log_end_number", "Where a log of this slave ends for readers", labels=labels
    )
    behind = GaugeMetricFamily(
        "warren_cluster_log_behind", "Messages of a log that are committed and not visible on this slave", labels=labels
    )
    for log, each in status.logs.items():
        end.add_metric([log], each.end)
        if each.behind is not None:
            behind.add_metric([log], each.behind)
    yield from (end, behind)


def _shard_families(shard: ShardStanding | SlaveStatus, role: str) -> Iterator[Metric]:
    place = ["shard", "replica", "role"]
    own = GaugeMetricFamily("warren_cluster_role", "1 for the role of this replica", labels=place)
    own.add_metric([str(shard.shard), str(shard.replica), role], 1)
    yield own
    yield _gauge("warren_cluster_epoch", "The epoch of the shard, which grows with each master", shard.epoch)
    yield _gauge("warren_cluster_insync_replicas", "Replicas in the in-sync set, the master included", shard.insync)
    yield _gauge("warren_cluster_min_insync", "Replicas that must have a put at least", shard.min_insync)


def _insync_family() -> GaugeMetricFamily:
    return GaugeMetricFamily("warren_cluster_slave_insync", "1 if a slave is in the in-sync set", labels=["replica"])


def _memory_families(budget: MemoryBudget) -> Iterator[Metric]:
    family = GaugeMetricFamily("warren_memory_bytes", "Bytes that clients make the broker hold", labels=["kind"])
    for kind, size in budget.sizes.items():
        family.add_metric([kind], size)
    yield family
    yield _gauge("warren_memory_limit_bytes", "The limit of these bytes", budget.size_max)
    yield _counter("warren_memory_waits", "Requests that had to wait for memory", budget.waits)
    yield _counter("warren_memory_refusals", "Requests that were refused because memory was short", budget.refusals)
    yield _counter("warren_memory_drops", "Connections closed because they held memory and stalled", budget.drops)


def _quota_families(broker: ProcessServices) -> Iterator[Metric]:
    throttled = CounterMetricFamily(
        "warren_throttled_answers", "Replies that asked the client to wait", labels=["user"]
    )
    seconds = CounterMetricFamily(
        "warren_throttled_seconds", "Seconds that these replies asked clients to wait", labels=["user"]
    )
    refused = CounterMetricFamily("warren_quota_refusals", "Requests that a quota refused", labels=["user"])
    for user, counts in sorted(broker.quotas.throttled.items()):
        for family, value in zip((throttled, seconds, refused), counts, strict=True):
            family.add_metric([user], value)
    yield from (throttled, seconds, refused)


def _request_families(broker: ProcessServices) -> Iterator[Metric]:
    requests = CounterMetricFamily("warren_requests", "Requests that got a reply", labels=["api"])
    errors = CounterMetricFamily("warren_request_errors", "Requests whose reply has an error", labels=["api"])
    size_in = CounterMetricFamily("warren_request_bytes", "Bytes of requests", labels=["api"])
    size_out = CounterMetricFamily("warren_response_bytes", "Bytes of replies", labels=["api"])
    seconds = HistogramMetricFamily(
        "warren_request_seconds",
        "Seconds from a request to its reply, including the wait that it asked for",
        labels=["api"],
    )
    for key, api in sorted(broker.metrics.apis.items()):
        name = [api_name(key)]
        requests.add_metric(name, api.requests)
        errors.add_metric(name, api.errors)
        size_in.add_metric(name, api.size_in)
        size_out.add_metric(name, api.size_out)
        seconds.add_metric(name, _buckets(api.seconds), api.seconds.sum)
    yield from (requests, errors, size_in, size_out, seconds)


def _http_families(counts: Counts) -> Iterator[Metric]:
    requests = CounterMetricFamily("warren_http_requests", "Requests over HTTP", labels=["route", "status"])
    for (route, status), count in sorted(counts.requests.items()):
        requests.add_metric([route, str(status)], count)
    yield requests
    yield _counter("warren_http_request_bytes", "Bytes of the bodies of requests over HTTP", counts.size_in)
    yield _counter("warren_http_response_bytes", "Bytes of the bodies of replies over HTTP", counts.size_out)


def _standing_families(standing: StoreStatus) -> Iterator[Metric]:
    place, whose = ["topic", "partition"], ["topic", "group"]
    first = GaugeMetricFamily("warren_partition_first_number", "The number of the first message", labels=place)
    end = GaugeMetricFamily("warren_partition_end_number", "The number that the next message gets", labels=place)
    size = GaugeMetricFamily("warren_partition_bytes", "Bytes on disk", labels=place)
    passed_over = CounterMetricFamily(
        "warren_partition_batches_passed_over", "Batches that a reader skipped as unreadable", labels=place
    )
    parked = GaugeMetricFamily(
        "warren_topic_parked", "Parked (delayed) messages that are not due yet", labels=["topic"]
    )
    damaged = GaugeMetricFamily("warren_topic_damaged", "1 if the topic is damaged", labels=["topic"])
    lag = GaugeMetricFamily("warren_group_lag", "Messages that are not consumed yet", labels=[*whose, "partition"])
    leased = GaugeMetricFamily("warren_group_leased", "Messages that workers have leased", labels=whose)
    members = GaugeMetricFamily("warren_group_members", "Members of a stream group", labels=whose)
    for topic in standing.topics:
        parked.add_metric([topic.topic], topic.parked)
        damaged.add_metric([topic.topic], int(topic.damage is not None))
        for partition, count in enumerate(topic.passed_over):
            passed_over.add_metric([topic.topic, str(partition)], count)
        for part in topic.partitions:
            labels = [topic.topic, str(part.partition)]
            first.add_metric(labels, part.first)
            end.add_metric(labels, part.end)
            size.add_metric(labels, part.bytes)
    for group in standing.groups:
        name = [group.topic, group.group]
        for each in group.partitions:
            lag.add_metric([*name, str(each.partition)], each.behind)
        if group.leased is not None:
            leased.add_metric(name, group.leased)
        if group.members is not None:
            members.add_metric(name, len(group.members))
    yield from (first, end, size, passed_over, parked, damaged, lag, leased, members)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, histogram.bounds), INFINITE]
    return list(zip(bounds, map(float, histogram.cumulated()), strict=True))
