"""`warren stats`: statistics of topics by time window, or of a running broker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from warren.cli.options.store_option import AsJson, RemoteTarget, StoreTarget, at_store, require_store
from warren.cli.output.tables import size_text, table, time_text, write_json
from warren.cli.running.job import ConfOption, MasterOption, running
from warren.cli.running.quantities import duration_s, moment_us
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput
from warren.settings import duration_us

if TYPE_CHECKING:
    from warren.spark.jobs.stats import Stats

TAGS_SHOWN = 3
TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[HOST:PORT] [TOPIC]...",
        help="A broker, or the topics of a store; without them every topic.",
        show_default=False,
    ),
]
SinceOption = Annotated[str | None, typer.Option(metavar="MOMENT", help="Start at this time, or e.g. 2h ago.")]
UntilOption = Annotated[str | None, typer.Option(metavar="MOMENT", help="Stop before this time, or e.g. 2h ago.")]
TagOption = Annotated[str | None, typer.Option(metavar="FILTER", help="Only messages whose tag matches, e.g. eu.#.")]
FromArchiveOption = Annotated[
    str | None, typer.Option("--archive", "-a", metavar="DIRECTORY", help="Read this archive together with the log.")
]


def addressed(command: Callable[..., None]) -> Callable[..., None]:
    """Lets the first argument of the command be the address of a broker. A topic name has no colon."""

    @functools.wraps(command)
    def addressed_command(*, context: typer.Context, **values: Any) -> None:
        topics = values["topics"] or []
        if topics and ":" in topics[0]:
            if values["server"] is not None:
                raise BadInput(f"{topics[0]} and --server {values['server']} each name a broker: pass only one of them")
            values["server"], values["topics"] = topics[0], topics[1:] or None
            source = context.get_parameter_source("topics")
            assert source is not None
            context.set_parameter_source("server", source)
        command(context=context, **values)

    return addressed_command


@addressed
@at_store
def stats(
    target: StoreTarget,
    topics: TopicsArgument = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="The length of a window, e.g. 1m; chosen automatically by default."),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="The time at which a message was made: header:NAME or json:FIELD."),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tag: TagOption = None,
    archive: FromArchiveOption = None,
    parquet: Annotated[str | None, typer.Option(metavar="FILE", help="Also write the windows as Parquet.")] = None,
    chart: Annotated[str | None, typer.Option(metavar="FILE", help="Also draw the windows as PNG.")] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_watching: Annotated[bool, typer.Option("--watch", help="Of a broker: repeat until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="Of a broker: the length of one measurement.")] = "1s",
    is_json: AsJson = False,
) -> None:
    """Show statistics of topics by time window, or of a running broker.

    Of topics: messages, bytes, tags, and quantiles of the time between messages and of their latency.
    The latency of a message is the time from when it was made, which --latency names, until it was put into the log.
    Of a broker: traffic, syncs, connections, topics, and the lag of groups.

    ```
    warren stats orders --since 1d --window 1h --chart orders.png
    warren stats orders --latency json:created --parquet stats.parquet
    warren stats localhost:9092 --watch
    ```
    """
    of_store: dict[str, Any] = {
        "window": window,
        "latency": latency,
        "since": since,
        "until": until,
        "tag": tag,
        "archive": archive,
    }
    of_job: dict[str, Any] = {"parquet": parquet, "chart": chart, "master": master, "conf": conf}
    if isinstance(target, RemoteTarget):
        _refuse("a store in a directory", **of_store, **of_job)
        # Imported here because only a broker needs a client.
        from warren.cli.output.broker_watch import show_broker

        show_broker(target, topics or [], duration_s(every), is_watching=is_watching, is_json=is_json)
        return
    _refuse("a broker", watch=is_watching or None)
    _show_store(target.files("warren stats"), topics, is_json=is_json, **of_store, **of_job)


def _refuse(owner: str, **options: object) -> None:
    for name, value in options.items():
        if value:
            raise BadInput(f"--{name} can only be used with {owner}")


def _show_store(
    store: str,
    topics: list[str] | None,
    *,
    window: str | None,
    latency: str | None,
    since: str | None,
    until: str | None,
    tag: str | None,
    archive: str | None,
    parquet: str | None,
    chart: str | None,
    master: str | None,
    conf: list[str] | None,
    is_json: bool,
) -> None:
    window_us = None if window is None else duration_us(window)
    since_us, until_us = moments_us(since, until)
    require_store(store)
    from warren.spark.jobs.selection import Selection
    from warren.spark.jobs.stats import stats as job
    from warren.spark.jobs.stats_chart import save_chart
    from warren.spark.store_access.files import FileCatalog

    names = topics or FileCatalog(store).topics()
    if not names:
        raise BadInput(f"there are no topics in {store}")
    chosen = Selection(store=store, topics=names, since_us=since_us, until_us=until_us, tag=tag, archive=archive)
    with running("stats", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("counting") as bar:
        result = job(spark_job.spark, chosen, window_us=window_us, latency=latency, progress=bar)
    if parquet is not None:
        result.save_parquet(parquet)
    if chart is not None:
        save_chart(result, chart)
    if is_json:
        write_json({"window": result.window_us, "windows": [each.to_json() for each in result.windows]})
    else:
        Console(highlight=False).print(_table(result, has_topic=len(result.totals()) > 1))


def moments_us(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Returns both in µs since the epoch, or None if not given."""
    now_us = SYSTEM_CLOCK.now_ns() // 1000
    return (
        None if since is None else moment_us(since, now_us),
        None if until is None else moment_us(until, now_us),
    )


def _table(stats: Stats, *, has_topic: bool) -> RenderableType:
    if not stats.windows:
        return Text("no messages", style="dim")
    has_latency = any(window.latencies for window in stats.windows)
    what = "latency" if has_latency else "between"
    topics = ", ".join(stats.totals())
    rows = table(f"Statistics of {topics}" if not has_topic else "Statistics")
    for name in [*(["topic"] if has_topic else []), "from (UTC)"]:
        rows.add_column(name, no_wrap=True)
    for name in ("messages", "size", f"{what} p50", "p90", "p99"):
        rows.add_column(name, justify="right", no_wrap=True)
    rows.add_column("tags")
    for window in stats.windows:
        quantiles = window.latencies if has_latency else window.gaps
        tags = ", ".join(f"{tag or '–'} {count:,}" for tag, count in list(window.tags.items())[:TAGS_SHOWN])
        rows.add_row(
            *([Text(window.topic)] if has_topic else []),
            time_text(window.start_us),
            f"{window.messages:,}",
            size_text(window.size),
            *(_seconds_text(quantiles.get(name)) for name in ("p50", "p90", "p99")),
            Text(tags + (", …" if len(window.tags) > TAGS_SHOWN else ""), no_wrap=True, overflow="ellipsis"),
        )
    return rows


def _seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e6:,.0f} µs"
