"""`warren replay` and `warren compact`: put messages of the log or an archive into another topic."""

from __future__ import annotations

from typing import Annotated

import typer

from warren.cli.commands.stats import FromArchiveOption, SinceOption, TagOption, UntilOption, moments_us
from warren.cli.options.environment import STORE_DEFAULT
from warren.cli.options.store_option import AsJson, StoreOption, TopicArgument, require_store
from warren.cli.output.tables import write_json
from warren.cli.running.job import ConfOption, MasterOption, running

IntoOption = Annotated[
    str, typer.Option(metavar="TOPIC", help="The topic to put them into; created if it does not exist.")
]
KeepTimesOption = Annotated[
    bool, typer.Option("--keep-times", help="Keep the time of each message in its header warren.timestamp.")
]


FromOption = Annotated[int | None, typer.Option("--from", metavar="NUMBER", min=0, help="Start at this number.")]
ToOption = Annotated[int | None, typer.Option("--to", metavar="NUMBER", min=0, help="Stop before this number.")]
WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only messages for which this is true, e.g. \"text like '%refund%'\".")
]
NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A name for this replay, which happens only once even if it is run again."),
]
KeepPartitionsOption = Annotated[
    bool, typer.Option("--keep-partitions", help="Put each message into the partition that it came from.")
]
ReviveOption = Annotated[bool, typer.Option("--revive", help="Leave out the headers that say why a dead letter died.")]


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
    """Put messages into a topic again, all or none.

    They keep their keys, tags, ids and headers, and get new numbers and times. A condition may use the columns of a
    message: partition, offset, timestamp, key, value, id, tag, headers, and `text`, which is the value as a string.

    ```
    warren replay orders --into orders-again --since 2026-03-01 --until 2026-03-02 --name march-1
    warren replay orders --into refunds --archive archive --where "text like '%refund%'" --keep-times
    warren replay orders --into test --from 1000 --to 2000 --tag 'eu.#'
    ```
    """
    since_us, until_us = moments_us(since, until)
    require_store(store)
    from warren.spark.jobs.replay import replay as job
    from warren.spark.jobs.selection import Selection

    chosen = Selection(store=store, topics=[topic], since_us=since_us, until_us=until_us, tag=tag, archive=archive)
    with running("replay", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("replaying") as bar:
        result = job(
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
        write_json(
            {"topic": topic, "into": into, "name": name, "messages": result.messages, "was_done": result.was_done}
        )
    elif result.was_done:
        typer.echo(f"put nothing: {name!r} was replayed into {into} before")
    else:
        typer.echo(
            f"{result.messages:,} {'message' if result.messages == 1 else 'messages'} of {topic} put into {into}"
        )


def compact(
    topic: TopicArgument,
    into: IntoOption,
    archive: FromArchiveOption = None,
    keeps_deleted: Annotated[
        bool, typer.Option("--keep-deleted", help="Also put messages with an empty value, which delete their key.")
    ] = False,
    keeps_times: KeepTimesOption = False,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="COUNT", min=1, help="Partitions of the new topic; without it as many as TOPIC has."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Put the latest message of each key into a new topic.

    Puts all of them or none, in the order of their times. A message with an empty value deletes its key. All messages
    without a key are kept. A second run into the same topic does nothing.

    ```
    warren compact customers --into customers-now
    warren compact customers --into customers-all --archive archive --keep-times
    ```
    """
    require_store(store)
    from warren.spark.jobs.compact import compact as job
    from warren.spark.jobs.selection import Selection

    chosen = Selection(store=store, topics=[topic], archive=archive)
    with running("compact", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("compacting") as bar:
        result = job(
            spark_job.spark,
            chosen,
            into,
            keeps_deleted=keeps_deleted,
            keeps_times=keeps_times,
            partitions=partitions,
            progress=bar,
        )
    if is_json:
        write_json({"topic": topic, "into": into, "messages": result.messages, "was_done": result.was_done})
    elif result.was_done:
        typer.echo(f"put nothing: {topic} was compacted into {into} before")
    else:
        typer.echo(
            f"{result.messages:,} {'message' if result.messages == 1 else 'messages'} of {topic} put into {into}"
        )
