"""`warren compact`: the latest message of each key, put into a new topic."""

from __future__ import annotations

from typing import Annotated

import typer

from warren.cli.job import ConfOption, MasterOption, running
from warren.cli.replay import IntoOption, KeepTimesOption
from warren.cli.show import write_json
from warren.cli.stats import FromArchiveOption
from warren.cli.store import STORE_DEFAULT, AsJson, StoreOption, TopicArgument, require_store


def compact(
    topic: TopicArgument,
    into: IntoOption,
    archive: FromArchiveOption = None,
    keeps_deleted: Annotated[
        bool, typer.Option("--keep-deleted", help="Also put messages with an empty value, which delete their key.")
    ] = False,
    keeps_times: KeepTimesOption = False,
    partitions: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="Of the new topic; as many as TOPIC has, if not given.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    is_json: AsJson = False,
    store: StoreOption = STORE_DEFAULT,
) -> None:
    """Put the latest message of each key into a new topic, all or none, in the order of their times.

    A message with an empty value deletes its key. Messages without a key are all kept. Once more into the same topic
    does nothing.

    ```
    warren compact customers --into customers-now
    warren compact customers --into customers-all --archive archive --keep-times
    ```
    """
    require_store(store)
    from warren.spark.compact import compact as job
    from warren.spark.selection import Selection

    chosen = Selection(store=store, topics=[topic], archive=archive)
    with running("compact", master, conf, is_quiet=is_json) as spark_job, spark_job.bar("compacting") as bar:
        done = job(
            spark_job.spark,
            chosen,
            into,
            keeps_deleted=keeps_deleted,
            keeps_times=keeps_times,
            partitions=partitions,
            progress=bar,
        )
    if is_json:
        write_json({"topic": topic, "into": into, "messages": done.messages, "was_done": done.was_done})
    elif done.was_done:
        typer.echo(f"nothing was put: {topic} was compacted into {into} before")
    else:
        typer.echo(f"{done.messages:,} {'message' if done.messages == 1 else 'messages'} of {topic} put into {into}")
