"""What came out of the demo, for people: revenue as a table and a chart, dead letters by reason, the archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console

from warren.cli.messages import pages
from warren.cli.show import size_text, table
from warren.message import Message
from warren.queue.dead_letter import HEADER_PREFIX
from warren.queue.topic import Topic

if TYPE_CHECKING:
    from warren.spark.archive.running import Archived
    from warren.spark.archive.verification import Verification

CHART_INCHES: Final = (10, 5)
CHART_DOTS_PER_INCH: Final = 120
REASON_WIDTH: Final = 60


class Slot(NamedTuple):
    """What one country bought in five minutes."""

    start: datetime
    country: str
    orders: int
    revenue: float


def messages_of(topic: Topic) -> Iterable[Message]:
    """All messages of a topic, one partition after the other."""
    for log in topic.logs:
        for page in pages(log, log.first, log.end, None):
            yield from page


def slots(topic: Topic) -> list[Slot]:
    """How things stand: of each key the last message counts."""
    latest = {message.key: json.loads(message.body) for message in messages_of(topic)}
    found = [
        Slot(datetime.fromisoformat(row["start"]), row["country"], row["orders"], row["revenue"])
        for row in latest.values()
    ]
    return sorted(found)


class Country(NamedTuple):
    """What one country bought in all, and its best five minutes."""

    country: str
    orders: int
    revenue: float
    best: Slot


def countries(found: Sequence[Slot]) -> list[Country]:
    """The countries, the one with the highest revenue first."""
    totals = []
    for country in by_revenue(found):
        mine = [slot for slot in found if slot.country == country]
        best = max(mine, key=lambda slot: slot.revenue)
        totals.append(Country(country, sum(slot.orders for slot in mine), sum(slot.revenue for slot in mine), best))
    return totals


def show_revenue(console: Console, totals: Sequence[Country]) -> None:
    """Revenue by country as a table."""
    shown = table("Revenue by country")
    shown.add_column("country")
    for name in ("orders", "revenue", "best five minutes", "its revenue"):
        shown.add_column(name, justify="right")
    for total in totals:
        shown.add_row(
            total.country,
            f"{total.orders:,}",
            f"{total.revenue:,.2f}",
            total.best.start.strftime("%H:%M"),
            f"{total.best.revenue:,.2f}",
        )
    console.print(shown, "", sep="\n")


def by_revenue(found: Sequence[Slot]) -> list[str]:
    """The countries, the one with the highest revenue first."""
    totals: Counter[str] = Counter()
    for slot in found:
        totals[slot.country] += slot.revenue  # type: ignore[assignment]
    return [country for country, _ in totals.most_common()]


def draw(found: Sequence[Slot], path: str) -> None:
    """Revenue in each five minutes, the countries on top of each other."""
    from matplotlib.dates import DateFormatter
    from matplotlib.figure import Figure

    clock_formatter: Any = DateFormatter
    starts = sorted({slot.start for slot in found})
    revenue = {(slot.start, slot.country): slot.revenue for slot in found}
    figure = Figure(figsize=CHART_INCHES, layout="constrained")
    axes: Any = figure.subplots()
    countries = by_revenue(found)
    heights = [[revenue.get((start, country), 0.0) for start in starts] for country in countries]
    axes.stackplot(starts, heights, labels=countries)
    axes.set_title("Revenue in five minutes, by country")
    axes.xaxis.set_major_formatter(clock_formatter("%H:%M"))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("time (UTC)")
    axes.margins(x=0)
    # On top of each other the legend reads like the chart.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
    figure.savefig(path, dpi=CHART_DOTS_PER_INCH)


def reasons_of(topic: Topic) -> Counter[str]:
    """How many dead letters there are for each reason."""
    return Counter(
        message.headers.get(HEADER_PREFIX + "reason", b"").decode(errors="replace") for message in messages_of(topic)
    )


def show_dead_letters(console: Console, reasons: Counter[str]) -> None:
    """How many orders were put aside, for each reason."""
    shown = table("Orders put aside, by reason")
    shown.add_column("messages", justify="right")
    shown.add_column("reason", max_width=REASON_WIDTH, overflow="ellipsis", no_wrap=True)
    for reason, count in reasons.most_common():
        shown.add_row(f"{count:,}", reason)
    console.print(shown, "", sep="\n")


def show_archive(console: Console, archived: Archived, verified: Verification) -> None:
    """What the archive holds, and whether it is what the log has."""
    is_good = "[green]verified[/]: counts, numbers and checksums are those of the log"
    verdict = is_good if verified.is_good else f"[red]{len(verified.findings)} findings[/]"
    size, count = size_text(archived.size), len(archived.files)
    console.print(f"Archive: {archived.count:,} messages in {count} Parquet files, {size}; {verdict}.", "", sep="\n")
