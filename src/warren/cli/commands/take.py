"""`warren take`: takes messages for a group, writes them, then acknowledges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from warren.cli.commands.read import BodyOption
from warren.cli.options.store_option import AnyTopic, AsJson, GroupArgument, StoreTarget, TopicArgument, at_store
from warren.cli.output.message_lines import WriteMessages, topic_writer
from warren.cli.running.errors import EXIT_NOTHING
from warren.cli.running.quantities import duration_s
from warren.errors import BadInput, NoSuchGroup
from warren.limits import WAIT_S_MAX
from warren.message import Message
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.stream.stream_group import StreamGroup
from warren.storage.format.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.groups import QueueWorker, StreamMember

PAGE: Final = 1_000
"""How many messages are written before they are acknowledged."""

GroupTagOption = Annotated[
    str | None,
    typer.Option(
        "--tag", "-t", metavar="FILTER", help="The filter of a new group; an existing group must have the same."
    ),
]


@at_store
def take(
    target: StoreTarget,
    topic: TopicArgument,
    group: GroupArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="COUNT", min=1, help="Take at most this many.")] = 1,
    wait: Annotated[
        str, typer.Option("--wait", "-w", metavar="DURATION", help="How long to wait for a message, e.g. 30s.")
    ] = "0s",
    is_acknowledging: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Acknowledge the messages, or give them back.")
    ] = True,
    tag: GroupTagOption = None,
    is_body: BodyOption = False,
    is_json: AsJson = False,
) -> None:
    """Take messages for a group, and write them, one per line.

    Messages are acknowledged after they are written: each message goes to one member of the group. A group that does
    not exist is created as a queue group that begins with the first message. A stream group reads and commits. Exits
    with 3 if there is nothing to take.
    """
    wait_s = duration_s(wait)
    if wait_s > WAIT_S_MAX:
        raise BadInput(f"--wait {wait}: at most {WAIT_S_MAX:.0f}s")
    if tag is not None:
        TagFilter.parse(tag)
    write = topic_writer(is_json=is_json, is_body=is_body)
    with target.open(keeps=wait_s > 0) as opened:
        source = opened.existing_topic(topic)
        if _is_stream(source, group):
            count = _read_stream(source.group(group, tag=tag), limit, wait_s, write, is_committing=is_acknowledging)
        else:
            member = source.group(group, mode="queue", tag=tag)
            count = _take_queue(member, limit, wait_s, write, is_acknowledging=is_acknowledging)
    if not count:
        raise typer.Exit(EXIT_NOTHING)


def _is_stream(topic: AnyTopic, group: str) -> bool:
    """Returns whether the group exists and is a stream group."""
    try:
        return topic.group_settings(group).mode == "stream"
    except NoSuchGroup:
        return False


def _take_queue(
    group: QueueGroup | QueueWorker[Any], limit: int, wait_s: float, write: WriteMessages, *, is_acknowledging: bool
) -> int:
    """Writes up to `limit` messages of the group, and waits for the first one. Returns how many."""
    count = 0
    items: list[Message] = []
    while count < limit:
        messages = group.take(min(PAGE, limit - count), wait=0.0 if count else wait_s)
        if not messages:
            break
        write(messages)
        # Acknowledged only after writing: messages that could not be written are handed out again.
        if is_acknowledging:
            group.ack_many(messages)
        else:
            items += messages
        count += len(messages)
    for message in items:
        group.nack(message)
    return count


def _read_stream(
    group: StreamGroup | StreamMember, limit: int, wait_s: float, write: WriteMessages, *, is_committing: bool
) -> int:
    """Does what `_take_queue` does for a stream group, in order, from the partitions that no other member owns."""
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
