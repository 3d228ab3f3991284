"""What a broker does: how much comes in and goes out, how its syncs are shared, and how topics and groups stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from warren.cli.pointing import Target
from warren.cli.show import shortened, size_text, span_text, table, write_json
from warren.client.calls import same
from warren.client.store import RemoteStore
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput
from warren.protocol.own_schemas import OwnKey

EVERY_S_MIN: Final = 0.1
EVERY_S_MAX: Final = 3600.0
ROWS_MAX: Final = 50
"""How many topics and groups are shown, the busiest first."""
MICROSECONDS: Final = 1_000_000

Document = Mapping[str, Any]
"""What the broker says of itself: docs/http.md has it."""


class Seen(NamedTuple):
    """What a broker said, and what it had said before."""

    before: Document
    now: Document

    @property
    def seconds(self) -> float:
        """Between the two, by the clock of the broker."""
        return max(1e-9, float(self.now["uptime_s"] - self.before["uptime_s"]))

    def rate(self, count: Callable[[Document], int]) -> float:
        """By how much something grew in a second. A broker that was started anew begins again."""
        return max(0, count(self.now) - count(self.before)) / self.seconds

    def rates(self) -> dict[str, float]:
        """All of them, by name."""
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


def show_broker(target: Target, topics: Sequence[str], every_s: float, *, is_watching: bool, is_json: bool) -> None:
    """Show it once, as of `every_s` later; or again and again, until Ctrl-C."""
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise BadInput(f"--every: expected {EVERY_S_MIN:g} to {EVERY_S_MAX:g} seconds")
    with target.open() as store:
        assert isinstance(store, RemoteStore)
        seen = looks(store, topics, every_s)
        if not is_watching:
            found = next(seen)
            write_json(document_of(found)) if is_json else Console(highlight=False).print(shown(str(target), found))
            return
        # Ctrl-C is how a person stops watching: it is not a failure.
        with suppress(KeyboardInterrupt):
            _watch(str(target), seen, is_json=is_json)


def _watch(address: str, seen: Iterator[Seen], *, is_json: bool) -> None:
    if is_json:
        for each in seen:
            typer.echo(json.dumps(document_of(each), ensure_ascii=False))
        return
    with Live(Text(f"{address}: waiting"), console=Console(highlight=False), auto_refresh=False) as live:
        for each in seen:
            live.update(shown(address, each), refresh=True)


def looks(store: RemoteStore, topics: Sequence[str], every_s: float, clock: Clock = SYSTEM_CLOCK) -> Iterator[Seen]:
    """What the broker says, again and again, each time with what it said before."""
    before = _look(store, topics)
    while True:
        clock.sleep(every_s)
        now = _look(store, topics)
        yield Seen(before, now)
        before = now


def _look(store: RemoteStore, topics: Sequence[str]) -> dict[str, Any]:
    """With the topics that were named, or all."""
    answer = store.calls.call(OwnKey.STATISTICS, {"is_standing_wanted": True}, repeat=same)
    found: dict[str, Any] = json.loads(answer.statistics)
    if topics:
        for name in ("topics", "groups"):
            found[name] = [each for each in found[name] if each["topic"] in topics]
    return found


def document_of(seen: Seen) -> dict[str, Any]:
    """For programs: what the broker said, and by how much that grows in a second."""
    return {**seen.now, "a_second": {name.replace(" ", "_"): rate for name, rate in seen.rates().items()}}


# --- As tables ---


def shown(address: str, seen: Seen) -> RenderableType:
    """All of it, for people."""
    now = seen.now
    state = " and stops" if now["is_stopping"] else ""
    waiting, connections = now["waiting"], now["connections"]
    head = Text(f"{address} is up for {span_text(round(now['uptime_s'] * MICROSECONDS))}{state}\n")
    head.append(f"connections {connections['open']:,}, waiting for messages {waiting['long_polls']:,}, ")
    head.append(f"puts under way {waiting['puts']:,}, requests under way {size_text(waiting['bytes'])}\n")
    memory = now["memory"]
    kinds = ", ".join(f"{kind} {size_text(size)}" for kind, size in memory["kinds"].items() if size)
    head.append(f"memory held for clients {size_text(memory['bytes'])} of {size_text(memory['limit'])}")
    head.append(f" ({kinds})" if kinds else "")
    return Group(head, "", _rates_table(seen), "", _topics_table(seen), "", _groups_table(now["groups"]))


def _rates_table(seen: Seen) -> RenderableType:
    found = table("Traffic")
    found.add_column("")
    for name in ("a second", "in all"):
        found.add_column(name, justify="right")
    for name, rate in seen.rates().items():
        total = COUNTS[name](seen.now)
        text = size_text if name.startswith("bytes") else _number_text
        found.add_row(name, text(round(rate)), text(total))
    puts = seen.now["puts"]
    shared = puts["puts_committed"] / puts["commits"] if puts["commits"] else 0
    found.add_row("puts a sync", "", f"{shared:,.1f}" if shared else "–")
    return found


def _topics_table(seen: Seen) -> RenderableType:
    before = {topic["topic"]: _topic_end(topic) for topic in seen.before["topics"]}
    rates = {
        topic["topic"]: max(0, _topic_end(topic) - before.get(topic["topic"], 0)) / seen.seconds
        for topic in seen.now["topics"]
    }
    topics = sorted(seen.now["topics"], key=lambda topic: (-rates[topic["topic"]], topic["topic"]))
    if not topics:
        return Text("no topics", style="dim")
    found = table("Topics")
    found.add_column("topic")
    for name in ("partitions", "messages", "size", "parked", "in a second"):
        found.add_column(name, justify="right")
    for topic in topics[:ROWS_MAX]:
        if topic["damage"] is not None:
            found.add_row(shortened(topic["topic"]), *"––––", Text("damaged", style="red"))
            continue
        counts = (len(topic["partitions"]), topic["messages"])
        texts = [*map(_number_text, counts), size_text(topic["bytes"]), _number_text(topic["parked"])]
        found.add_row(shortened(topic["topic"]), *texts, _number_text(round(rates[topic["topic"]])))
    return found


def _groups_table(groups: Sequence[Document]) -> RenderableType:
    if not groups:
        return Text("no groups", style="dim")
    found = table("Groups")
    for name in ("group", "topic", "mode"):
        found.add_column(name)
    for name in ("members", "leased", "behind"):
        found.add_column(name, justify="right")
    for group in sorted(groups, key=lambda group: (-group["behind"], group["group"]))[:ROWS_MAX]:
        counts = [_number_text(group[name]) for name in ("members", "leased", "behind")]
        found.add_row(shortened(group["group"]), shortened(group["topic"]), group["mode"], *counts)
    return found


def _number_text(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
