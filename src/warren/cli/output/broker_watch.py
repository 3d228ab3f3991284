"""The statistics of a broker: traffic, puts for each sync, memory, topics, and the lag of groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from warren.cli.options.store_option import StoreTarget
from warren.cli.output.tables import shortened, size_text, span_text, table, write_json
from warren.client.net.session import same
from warren.client.store import RemoteStore
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput
from warren.protocol.native_messages import StatisticsRequest

EVERY_S_MIN: Final = 0.1
EVERY_S_MAX: Final = 3600.0
ROWS_MAX: Final = 50
"""How many topics and how many groups are shown, the busiest first."""
MICROSECONDS: Final = 1_000_000

Document = Mapping[str, Any]
"""The statistics document of a broker, which docs/http.md describes."""


class StatsPair(NamedTuple):
    """The latest statistics of a broker, and the ones before them."""

    before: Document
    now: Document

    @property
    def seconds(self) -> float:
        """Returns the time between the two, by the broker's clock."""
        return max(1e-9, float(self.now["uptime_s"] - self.before["uptime_s"]))

    def rate(self, count: Callable[[Document], int]) -> float:
        """Returns by how much a counter grew per second. After a restart of the broker it counts from zero."""
        return max(0, count(self.now) - count(self.before)) / self.seconds

    def rates(self) -> dict[str, float]:
        """Returns all rates by name."""
        return {name: self.rate(count) for name, count in COUNTS.items()}


def _summed(name: str) -> Callable[[Document], int]:
    return lambda document: sum(api[name] for api in document["requests"])


def _messages(document: Document) -> int:
    return sum(map(_topic_end, document["topics"]))


def _topic_end(topic: Document) -> int:
    return sum(part["end"] for part in topic["partitions"])


COUNTS: Final[Mapping[str, Callable[[Document], int]]] = {
    "messages in": _messages,
    "bytes in": _summed("bytes_in"),
    "bytes out": _summed("bytes_out"),
    "requests": _summed("count"),
    "errors": _summed("errors"),
    "puts": lambda document: int(document["puts"]["count"]),
    "syncs": lambda document: int(document["puts"]["commits"]),
}


def show_broker(
    target: StoreTarget, topics: Sequence[str], every_s: float, *, is_watching: bool, is_json: bool
) -> None:
    """Shows the statistics of the next `every_s` seconds, or with `is_watching` repeatedly until Ctrl-C."""
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise BadInput(f"--every: expected {EVERY_S_MIN:g} to {EVERY_S_MAX:g} seconds")
    with target.open() as store:
        assert isinstance(store, RemoteStore)
        pairs = looks(store, topics, every_s)
        if not is_watching:
            pair = next(pairs)
            write_json(document_of(pair)) if is_json else Console(highlight=False).print(tables_of(str(target), pair))
            return
        # Ctrl-C is the usual way to stop watching, not a failure.
        with suppress(KeyboardInterrupt):
            _watch(str(target), pairs, is_json=is_json)


def _watch(address: str, pairs: Iterator[StatsPair], *, is_json: bool) -> None:
    if is_json:
        for each in pairs:
            typer.echo(json.dumps(document_of(each), ensure_ascii=False))
        return
    with Live(Text(f"{address}: waiting"), console=Console(highlight=False), auto_refresh=False) as live:
        for each in pairs:
            live.update(tables_of(address, each), refresh=True)


def looks(
    store: RemoteStore, topics: Sequence[str], every_s: float, clock: Clock = SYSTEM_CLOCK
) -> Iterator[StatsPair]:
    """Yields the statistics of the broker repeatedly, each with the ones before."""
    before = _look(store, topics)
    while True:
        clock.sleep(every_s)
        now = _look(store, topics)
        yield StatsPair(before, now)
        before = now


def _look(store: RemoteStore, topics: Sequence[str]) -> dict[str, Any]:
    """Requests the statistics. Returns the document with the named topics only, or with all if none is named."""
    answer = store.calls.call(StatisticsRequest(is_standing_wanted=True), repeat=same)
    document: dict[str, Any] = json.loads(answer.statistics)
    if topics:
        for name in ("topics", "groups"):
            document[name] = [each for each in document[name] if each["topic"] in topics]
    return document


def document_of(pair: StatsPair) -> dict[str, Any]:
    """Returns the statistics and the rates as JSON."""
    return {**pair.now, "a_second": {name.replace(" ", "_"): rate for name, rate in pair.rates().items()}}


# --- As tables ---


def tables_of(address: str, pair: StatsPair) -> RenderableType:
    """Returns all tables."""
    now = pair.now
    state = " and stops" if now["is_stopping"] else ""
    waiting, connections = now["waiting"], now["connections"]
    head = Text(f"{address} is up for {span_text(round(now['uptime_s'] * MICROSECONDS))}{state}\n")
    head.append(f"connections {connections['open']:,}, waiting for messages {waiting['long_polls']:,}, ")
    head.append(f"puts in progress {waiting['puts']:,}, requests in progress {size_text(waiting['bytes'])}\n")
    memory = now["memory"]
    kinds = ", ".join(f"{kind} {size_text(size)}" for kind, size in memory["kinds"].items() if size)
    head.append(f"memory held for clients {size_text(memory['bytes'])} of {size_text(memory['limit'])}")
    head.append(f" ({kinds})" if kinds else "")
    return Group(head, "", _rates_table(pair), "", _topics_table(pair), "", _groups_table(now["groups"]))


def _rates_table(pair: StatsPair) -> RenderableType:
    rows = table("Traffic")
    rows.add_column("")
    for name in ("per second", "total"):
        rows.add_column(name, justify="right")
    for name, rate in pair.rates().items():
        total = COUNTS[name](pair.now)
        text = size_text if name.startswith("bytes") else _number_text
        rows.add_row(name, text(round(rate)), text(total))
    puts = pair.now["puts"]
    shared = puts["puts_committed"] / puts["commits"] if puts["commits"] else 0
    rows.add_row("puts per sync", "", f"{shared:,.1f}" if shared else "–")
    return rows


def _topics_table(pair: StatsPair) -> RenderableType:
    before = {topic["topic"]: _topic_end(topic) for topic in pair.before["topics"]}
    rates = {
        topic["topic"]: max(0, _topic_end(topic) - before.get(topic["topic"], 0)) / pair.seconds
        for topic in pair.now["topics"]
    }
    topics = sorted(pair.now["topics"], key=lambda topic: (-rates[topic["topic"]], topic["topic"]))
    if not topics:
        return Text("no topics", style="dim")
    rows = table("Topics")
    rows.add_column("topic")
    for name in ("partitions", "messages", "size", "parked", "per second"):
        rows.add_column(name, justify="right")
    for topic in topics[:ROWS_MAX]:
        if topic["damage"] is not None:
            rows.add_row(shortened(topic["topic"]), *"––––", Text("damaged", style="red"))
            continue
        counts = (len(topic["partitions"]), topic["messages"])
        texts = [*map(_number_text, counts), size_text(topic["bytes"]), _number_text(topic["parked"])]
        rows.add_row(shortened(topic["topic"]), *texts, _number_text(round(rates[topic["topic"]])))
    return rows


def _groups_table(groups: Sequence[Document]) -> RenderableType:
    if not groups:
        return Text("no groups", style="dim")
    rows = table("Groups")
    for name in ("group", "topic", "mode"):
        rows.add_column(name)
    for name in ("members", "leased", "behind"):
        rows.add_column(name, justify="right")
    for group in sorted(groups, key=lambda group: (-group["behind"], group["group"]))[:ROWS_MAX]:
        counts = [_number_text(group[name]) for name in ("members", "leased", "behind")]
        rows.add_row(shortened(group["group"]), shortened(group["topic"]), group["mode"], *counts)
    return rows


def _number_text(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
