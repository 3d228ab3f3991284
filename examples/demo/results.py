"""The results of the demo: revenue as a table and a chart, dead letters by reason, and the archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console

from warren.cli.output.message_lines import pages
from warren.cli.output.tables import size_text, table
from warren.message import Message
from warren.queue.leases.dead_letters import HEADER_PREFIX
from warren.queue.topic import Topic

if TYPE_CHECKING:
    from warren.spark.archive.run import Archived
    from warren.spark.archive.verification import Verification

CHART_INCHES: Final = (10, 5)
CHART_DOTS_PER_INCH: Final = 120
REASON_WIDTH: Final = 60


class Slot(NamedTuple):
    """The orders of one country in five minutes."""

    start: datetime
    country: str
    orders: int
    revenue: float


def messages_of(topic: Topic) -> Iterable[Message]:
    """Yields all messages of a topic, one partition after the other."""
    for log in topic.logs:
        for page in pages(log, log.first, log.end, None):
            yield from page


def slots(topic: Topic) -> list[Slot]:
    """Returns the current state: that of the last message of each key."""
    latest = {message.key: json.loads(message.body) for message in messages_of(topic)}
    rows = [
        Slot(datetime.fromisoformat(row["start"]), row["country"], row["orders"], row["revenue"])
        for row in latest.values()
    ]
    return sorted(rows)


class Country(NamedTuple):
    """All orders of one country, and its best five minutes."""

    country: str
    orders: int
    revenue: float
    best: Slot


def countries(revenue: Sequence[Slot]) -> list[Country]:
    """Returns the total of each country, the highest revenue first."""
    totals = []
    for country in by_revenue(revenue):
        mine = [slot for slot in revenue if slot.country == country]
        best = max(mine, key=lambda slot: slot.revenue)
        totals.append(Country(country, sum(slot.orders for slot in mine), sum(slot.revenue for slot in mine), best))
    return totals


def show_revenue(console: Console, totals: Sequence[Country]) -> None:
    """Shows revenue by country as a table."""
    revenue_table = table("Revenue by country")
    revenue_table.add_column("country")
    for name in ("orders", "revenue", "best five minutes", "its revenue"):
        revenue_table.add_column(name, justify="right")
    for total in totals:
        revenue_table.add_row(
            total.country,
            f"{total.orders:,}",
            f"{total.revenue:,.2f}",
            total.best.start.strftime("%H:%M"),
            f"{total.best.revenue:,.2f}",
        )
    console.print(revenue_table, "", sep="\n")


def by_revenue(revenue: Sequence[Slot]) -> list[str]:
    """Returns the names of the countries, the one with the highest revenue first."""
    totals: Counter[str] = Counter()
    for slot in revenue:
        totals[slot.country] += slot.revenue  # type: ignore[assignment]
    return [country for country, _ in totals.most_common()]


def draw(slots: Sequence[Slot], path: str) -> None:
    """Draws the revenue of each five minutes into a PNG, the countries stacked."""
    from matplotlib.dates import DateFormatter
    from matplotlib.figure import Figure

    clock_formatter: Any = DateFormatter
    starts = sorted({slot.start for slot in slots})
    revenue = {(slot.start, slot.country): slot.revenue for slot in slots}
    figure = Figure(figsize=CHART_INCHES, layout="constrained")
    axes: Any = figure.subplots()
    countries = by_revenue(slots)
    heights = [[revenue.get((start, country), 0.0) for start in starts] for country in countries]
    axes.stackplot(starts, heights, labels=countries)
    axes.set_title("Revenue in five minutes, by country")
    axes.xaxis.set_major_formatter(clock_formatter("%H:%M"))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("time (UTC)")
    axes.margins(x=0)
    # Reversed, so that the legend has the order of the stack.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
    figure.savefig(path, dpi=CHART_DOTS_PER_INCH)


def reasons_of(topic: Topic) -> Counter[str]:
    """Returns how many dead letters there are for each reason."""
    return Counter(
        message.headers.get(HEADER_PREFIX + "reason", b"").decode(errors="replace") for message in messages_of(topic)
    )


def show_dead_letters(console: Console, reasons: Counter[str]) -> None:
    """Shows how many orders were set aside, for each reason."""
    reason_table = table("Orders put aside, by reason")
    reason_table.add_column("messages", justify="right")
    reason_table.add_column("reason", max_width=REASON_WIDTH, overflow="ellipsis", no_wrap=True)
    for reason, count in reasons.most_common():
        reason_table.add_row(f"{count:,}", reason)
    console.print(reason_table, "", sep="\n")


def show_archive(console: Console, archived: Archived, verification: Verification) -> None:
    """Shows what the archive holds, and whether it agrees with the log."""
    is_good = "[green]verified[/]: counts, numbers and checksums are those of the log"
    verdict = is_good if verification.is_good else f"[red]{len(verification.findings)} findings[/]"
    size, count = size_text(archived.size), len(archived.files)
    console.print(f"Archive: {archived.count:,} messages in {count} Parquet files, {size}; {verdict}.", "", sep="\n")
