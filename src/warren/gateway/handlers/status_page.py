"""The status page: health, topics and lag in plain HTML, without scripts and without files from other servers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.status import TopicStanding
from warren.gateway.handlers.health import readiness
from warren.gateway.http.types import HttpReply, HttpRequest
from warren.queue.group_description import GroupDescription

ROWS_MAX: Final = 500
"""How many topics and how many groups the page shows."""
SIZE_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
STYLE: Final = """
:root { color-scheme: light dark; --line: #d0d4da; --dim: #5b6470; --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4049; --dim: #9aa4b1; --good: #4ac26b; --bad: #ff8a80; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
header { display: flex; align-items: baseline; gap: .75rem; } h1, header p { margin: 0; }
h2 { margin: 2rem 0 .5rem; font-size: 1.15rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .dim { color: var(--dim); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.5rem 0 0; }
dl div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem; }
dt { color: var(--dim); font-size: .85rem; } dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); }
thead th { color: var(--dim); font-weight: 600; font-size: .85rem; }
tbody th { font-weight: 600; min-width: 8rem; overflow-wrap: anywhere; }
td { overflow-wrap: anywhere; }
@media (max-width: 40rem) { .wide { display: none; } body { margin: 1rem auto; } tbody th { min-width: 7rem; } }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
footer { margin-top: 2.5rem; color: var(--dim); font-size: .9rem; }
"""
POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)


async def show(request: HttpRequest) -> HttpReply:
    """Shows health, and the topics and groups that the user may describe."""
    reason, standing = await readiness(request), await request.broker.standings.look()
    turns = request.broker.turns
    topics = [
        topic
        async for topic in turns.over(standing.topics)
        if request.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.topic)
    ]
    groups = [
        group
        async for group in turns.over(standing.groups)
        if request.may(Operation.DESCRIBE, ResourceKind.TOPIC, group.topic)
        and request.may(Operation.DESCRIBE, ResourceKind.GROUP, group.group)
    ]
    text = await request.broker.aside(_page, request, reason, topics, groups)
    return HttpReply(
        status=200,
        body=text.encode(errors="replace"),
        kind="text/html; charset=utf-8",
        headers={"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"},
    )


def _page(
    request: HttpRequest, reason: str, topics: Sequence[TopicStanding], groups: Sequence[GroupDescription]
) -> str:
    state = f'<p class="bad">{escape(reason)}</p>' if reason else '<p class="good">serving</p>'
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Warren</title>
<style>{STYLE}</style>
</head>
<body>
<header><h1>Warren</h1>{state}</header>
<main>
{_facts(request, topics, groups)}
{_topics_table(topics)}
{_groups_table(groups)}
</main>
<footer><a href="/">Refresh</a> · <a href="/metrics">metrics</a> · <a href="/openapi.json">OpenAPI</a> ·
<a href="/healthz">health</a> · <a href="/readyz">readiness</a></footer>
</body>
</html>
"""


def _facts(request: HttpRequest, topics: Sequence[TopicStanding], groups: Sequence[GroupDescription]) -> str:
    broker = request.broker
    facts = {
        "up for": _span(broker.metrics.now() - broker.metrics.begun_s),
        "connections": f"{len(broker.connections):,}",
        "topics": f"{len(topics):,}",
        "messages": f"{sum(topic.messages for topic in topics):,}",
        "on disk": _size(sum(topic.size for topic in topics)),
        "lag of all groups": f"{sum(group.behind for group in groups):,}",
    }
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts.items()) + "</dl>"


class Column(NamedTuple):
    """A column of a table. A narrow screen, such as a phone's, hides the columns with `is_wide`."""

    name: str
    is_number: bool = True
    is_wide: bool = False

    def cell(self, text: str, tag: str = "td", scope: str = "") -> str:
        """Returns `text`, which is HTML, as a cell of this column."""
        classes = " ".join(["number"] * self.is_number + ["wide"] * self.is_wide)
        attributes = (f' scope="{scope}"' if scope else "") + (f' class="{classes}"' if classes else "")
        return f"<{tag}{attributes}>{text}</{tag}>"


# The columns that an operator needs most come first, because a phone shows only these.
TOPIC_COLUMNS: Final = (
    Column("topic", is_number=False),
    Column("messages"),
    Column("parked"),
    Column("size", is_wide=True),
    Column("partitions", is_wide=True),
)
GROUP_COLUMNS: Final = (
    Column("group", is_number=False),
    Column("behind"),
    Column("leased", is_wide=True),
    Column("topic", is_number=False),
    Column("members", is_wide=True),
    Column("mode", is_number=False, is_wide=True),
)


def _topics_table(topics: Sequence[TopicStanding]) -> str:
    rows = [
        [escape(topic.topic), f"{topic.messages:,}", f"{topic.parked:,}", _size(topic.size), str(len(topic.partitions))]
        if topic.damage is None
        else [escape(topic.topic), '<span class="bad">damaged</span>', *"–––"]
        for topic in topics
    ]
    return _table("Topics", TOPIC_COLUMNS, rows)


def _groups_table(groups: Sequence[GroupDescription]) -> str:
    rows = [
        [
            escape(group.group),
            f"{group.behind:,}",
            "–" if group.leased is None else f"{group.leased:,}",
            escape(group.topic),
            "–" if group.members is None else f"{len(group.members):,}",
            group.settings.mode,
        ]
        for group in groups
    ]
    return _table("Groups", GROUP_COLUMNS, rows)


def _table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    name = title.lower()
    if not rows:
        return f'<h2 id="{name}">{title}</h2><p class="dim">none yet</p>'
    heads = "".join(column.cell(column.name, "th", "col") for column in columns)
    more = f'<p class="dim">and {len(rows) - ROWS_MAX:,} more</p>' if len(rows) > ROWS_MAX else ""
    body = "\n".join(f"<tr>{''.join(_cells(columns, row))}</tr>" for row in rows[:ROWS_MAX])
    return f"""<h2 id="{name}">{title}</h2>
<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">
<table><thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody></table></div>{more}"""


def _cells(columns: Sequence[Column], row: Sequence[str]) -> Iterable[str]:
    yield columns[0].cell(row[0], "th", "row")
    yield from (column.cell(text) for column, text in zip(columns[1:], row[1:], strict=True))


def _size(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1024 and unit < len(SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.0f} {SIZE_UNITS[unit]}" if unit == 0 else f"{value:,.1f} {SIZE_UNITS[unit]}"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"
