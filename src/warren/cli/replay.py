"""`warren replay`: messages of the log or an archive put into a topic again."""

from __future__ import annotations

from typing import Annotated

import typer

from warren.cli.job import ConfOption, MasterOption, running
from warren.cli.show import write_json
from warren.cli.stats import FromArchiveOption, SinceOption, TagOption, UntilOption, moments_us
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption, TopicArgument, require_store

IntoOption = Annotated[str, typer.Option(metavar="TOPIC", help="The topic to put them into; made where it is missing.")]
KeepTimesOption = Annotated[
    bool, typer.Option("--keep-times", help="Keep the time of a message, in its header warren.timestamp.")
]


FromOption = Annotated[int | None, typer.Option("--from", metavar="NUMBER", min=0, help="From this number on.")]
ToOption = Annotated[int | None, typer.Option("--to", metavar="NUMBER", min=0, help="Up to this number, without it.")]
WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Those for which this is true, e.g. \"text like '%refund%'\".")
]
NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Do it once under this name, however often it is run.")
]
KeepPartitionsOption = Annotated[
    bool, typer.Option("--keep-partitions", help="Put each into the partition that it came from.")
]
ReviveOption = Annotated[bool, typer.Option("--revive", help="Leave out the headers that tell why a dead letter died.")]


def replay(
    topic: TopicArgument,
    into: IntoOption,
    first: FromOption = None,
    end: ToOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    tag: TagOption = None,
    where: WhereOption = None,
    archive: FromArchiveOption = None,
    name: NameOption = None,
    keeps_times: KeepTimesOption = False,
    keeps_partitions: KeepPartitionsOption = False,
    is_reviving: ReviveOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Put messages into a topic again, all or none, with their keys, tags, ids and headers.

    They get new numbers and times there. A condition may use the columns of a message: partition, offset, timestamp,
    key, value, id, tag, headers, and `text`, which is the value as a string.

    ```
    warren replay orders --into orders-again --since 2026-03-01 --until 2026-03-02 --name march-1
    warren replay orders --into refunds --archive archive --where "text like '%refund%'" --keep-times
    warren replay orders --into test --from 1000 --to 2000 --tag 'eu.#'
    ```
    """
    since_us, until_us = moments_us(since, until)
    require_store(store)
    from warren.spark.replay import replay as job
    from warren.spark.selection import Selection

    chosen = Selection(store=store, topics=[topic], since_us=since_us, until_us=until_us, tag=tag, archive=archive)
    with running("replay", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("replaying") as bar:
        done = job(
            spark_job.spark,
            chosen,
            into,
            first=first,
            end=end,
            where=where,
            name=name,
            keeps_times=keeps_times,
            keeps_partitions=keeps_partitions,
            is_reviving=is_reviving,
            progress=bar,
        )
    if is_json:
        write_json({"topic": topic, "into": into, "name": name, "messages": done.messages, "was_done": done.was_done})
    elif done.was_done:
        typer.echo(f"nothing was put: {name!r} was replayed into {into} before")
    else:
        typer.echo(f"{done.messages:,} {'message' if done.messages == 1 else 'messages'} of {topic} put into {into}")
