"""`warren take`: messages for a group, which are done with once they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from warren.cli.failure import EXIT_NOTHING
from warren.cli.lines import Write, topic_writer
from warren.cli.pointing import AnyTopic, Target, at_store
from warren.cli.quantities import duration_s
from warren.cli.read import BodyOption
from warren.cli.store import AsJson, GroupArgument, TopicArgument
from warren.config import WAIT_S_MAX
from warren.errors import BadInput, NoSuchGroup
from warren.message import Message
from warren.queue.queue_group import QueueGroup
from warren.queue.stream_group import StreamGroup
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.groups import QueueWorker, StreamMember

PAGE: Final = 1_000
"""How many messages are written before they are acknowledged."""

GroupTagOption = Annotated[
    str | None,
    typer.Option(
        "--tag", "-t", metavar="FILTER", help="The filter of a new group; one that exists must have the same."
    ),
]


@at_store
def take(
    target: Target,
    topic: TopicArgument,
    group: GroupArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="COUNT", min=1, help="At most so many.")] = 1,
    wait: Annotated[
        str, typer.Option("--wait", "-w", metavar="DURATION", help="How long to wait where there is none, e.g. 30s.")
    ] = "0s",
    is_acknowledging: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Whether they are done with, or come again.")
    ] = True,
    tag: GroupTagOption = None,
    is_body: BodyOption = False,
    is_json: AsJson = False,
) -> None:
    """Take messages for a group, and write them, one a line.

    They are acknowledged once they are written: the members of a group get each message once. A group that is missing
    is made, as a queue group that begins with the first message. From a stream group they are read and committed.
    Exits with 3 where there is nothing to take.
    """
    wait_s = duration_s(wait)
    if wait_s > WAIT_S_MAX:
        raise BadInput(f"--wait {wait}: at most {WAIT_S_MAX:.0f}s")
    if tag is not None:
        TagFilter.parse(tag)
    write = topic_writer(is_json=is_json, is_body=is_body)
    with target.open(keeps=wait_s > 0) as opened:
        found = opened.existing_topic(topic)
        if _is_stream(found, group):
            count = _read_stream(found.group(group, tag=tag), limit, wait_s, write, is_committing=is_acknowledging)
        else:
            member = found.group(group, mode="queue", tag=tag)
            count = _take_queue(member, limit, wait_s, write, is_acknowledging=is_acknowledging)
    if not count:
        raise typer.Exit(EXIT_NOTHING)


def _is_stream(topic: AnyTopic, group: str) -> bool:
    """Whether there is such a group, and it is one that reads in order."""
    try:
        return topic.group_settings(group).mode == "stream"
    except NoSuchGroup:
        return False


def _take_queue(
    group: QueueGroup | QueueWorker, limit: int, wait_s: float, write: Write, *, is_acknowledging: bool
) -> int:
    """Write up to `limit` messages that the group has, waiting for the first one; how many it were."""
    count = 0
    kept: list[Message] = []
    while count < limit:
        messages = group.take(min(PAGE, limit - count), wait=0.0 if count else wait_s)
        if not messages:
            break
        write(messages)
        # Only now: what could not be written is handed out again.
        if is_acknowledging:
            group.ack_many(messages)
        else:
            kept += messages
        count += len(messages)
    for message in kept:
        group.nack(message)
    return count


def _read_stream(
    group: StreamGroup | StreamMember, limit: int, wait_s: float, write: Write, *, is_committing: bool
) -> int:
    """As `_take_queue`, in order, from the partitions that nobody else owns."""
    count = 0
    while count < limit:
        messages = group.read(min(PAGE, limit - count), wait=0.0 if count else wait_s)
        if not messages:
            break
        write(messages)
        if is_committing:
            group.commit()
        count += len(messages)
    return count
