"""`warren read`: reads messages of a topic by place, time and tag, without a group, and follows new ones."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from warren.cli.options.store_option import AnyTopic, AsJson, StoreTarget, TopicArgument, at_store
from warren.cli.output.message_lines import FOLLOW_WAIT_S, PAGE, AnyLog, last_messages, pages, topic_writer
from warren.cli.running.quantities import moment_us
from warren.clock import SYSTEM_CLOCK
from warren.errors import GONE, BadInput, FellBehind, NoSuchTopic, NumberRetired
from warren.message import Message
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.format.tags import TagFilter
from warren.storage.log import wait_for_any

if TYPE_CHECKING:
    from warren.client.topic import RemoteTopic

BY_TIME: Final = attrgetter("timestamp")

PartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="NUMBER", min=0, help="Only this partition.")
]
TagOption = Annotated[
    str | None, typer.Option("--tag", "-t", metavar="FILTER", help="Only messages whose tag matches, e.g. 'eu.*;us.#'.")
]
BodyOption = Annotated[bool, typer.Option("--body", help="Write only the bodies, as they are.")]
MOMENT: Final = "TIME|AGO"


class NumberRange(NamedTuple):
    """The messages of one partition from `start` up to `end`."""

    log: AnyLog
    start: int
    end: int


@dataclass(slots=True)
class FollowPosition:
    """The number of the next message to follow in one partition."""

    log: AnyLog
    number: int


@at_store
def read(
    target: StoreTarget,
    topic: TopicArgument,
    since: Annotated[
        str | None, typer.Option(metavar=MOMENT, help="Start at this time, e.g. 10m (ago) or 2026-03-01T12:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar=MOMENT, help="Stop before this time.")] = None,
    last: Annotated[
        int | None, typer.Option("--last", "-n", metavar="COUNT", min=0, help="Only this many of the last messages.")
    ] = None,
    start: Annotated[
        int | None, typer.Option("--from", metavar="NUMBER", min=0, help="Start at this number of a partition.")
    ] = None,
    partition: PartitionOption = None,
    tag: TagOption = None,
    limit: Annotated[int | None, typer.Option(metavar="COUNT", min=0, help="Stop after this many messages.")] = None,
    is_following: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep writing messages as they are put.")
    ] = False,
    is_body: BodyOption = False,
    is_json: AsJson = False,
) -> None:
    """Write the messages of a topic, one per line.

    A line has partition and number, time, tag, key, headers and body, separated by tabs. Partitions are merged by time.
    Reading removes nothing and stores no position; use `warren take` for that.
    """
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    if is_following and until is not None:
        raise BadInput("--follow does not end: omit --until")
    with target.open_to_read(keeps=is_following) as opened:
        source = opened.existing_topic(topic)
        now_us = SYSTEM_CLOCK.now_ns() // 1000
        since_us, until_us = (None if text is None else moment_us(text, now_us) for text in (since, until))
        write = topic_writer(is_json=is_json, is_body=is_body)
        try:
            spans = spans_of(source, partition, start, since_us, until_us)
            if all(span.start >= span.end for span in spans):
                # A broker thus refuses a user without the right to read, even if there is nothing to read.
                spans[0].log.read(spans[0].log.end, limit=1)
            batches = _batches(spans, last, tag_filter)
            if is_following:
                places = places_behind(spans)
                batches = chain(batches, _news(source, places, tag_filter, partition))
            for batch in _limited(batches, limit):
                write(batch)
        except GONE as error:
            raise NoSuchTopic(topic) from error
        except KeyboardInterrupt:
            # Ctrl-C is the usual way to stop following, not a failure.
            if not is_following:
                raise


def spans_of(
    topic: AnyTopic, partition: int | None, start: int | None, since_us: int | None, until_us: int | None
) -> list[NumberRange]:
    """Returns the messages that can be read now, of one partition or of all."""
    if start is not None and partition is None and topic.partition_count > 1:
        raise BadInput(f"--from: the topic has {topic.partition_count} partitions; name one with --partition")
    logs = topic.logs if partition is None else [topic.partition(partition)]
    return [NumberRange(log, *_bounds(log, start, since_us, until_us)) for log in logs]


def _bounds(log: AnyLog, start: int | None, since_us: int | None, until_us: int | None) -> tuple[int, int]:
    first = log.first if start is None else start
    if since_us is not None:
        first = max(first, log.find_time(since_us))
    return first, log.end if until_us is None else log.find_time(until_us)


def _batches(spans: Sequence[NumberRange], last: int | None, tag: TagFilter | None) -> Iterator[list[Message]]:
    """Yields the messages of the spans in the order in which they are written."""
    if last is not None:
        lasts = [last_messages(span.log, span.end, last, tag, start=span.start) for span in spans]
        yield list(heapq.merge(*lasts, key=BY_TIME))[-last:] if last else []
    elif len(spans) == 1:
        yield from pages(spans[0].log, spans[0].start, spans[0].end, tag)
    else:
        merged = heapq.merge(*(_messages(span, tag) for span in spans), key=BY_TIME)
        while batch := list(islice(merged, PAGE)):
            yield batch


def _messages(span: NumberRange, tag: TagFilter | None) -> Iterator[Message]:
    return chain.from_iterable(pages(span.log, span.start, span.end, tag))


def places_behind(spans: Sequence[NumberRange]) -> list[FollowPosition]:
    """Returns the places where following continues: the ends of the spans, or a later number that the user named."""
    return [FollowPosition(span.log, max(span.start, span.end)) for span in spans]


def _news(
    topic: AnyTopic, places: list[FollowPosition], tag: TagFilter | None, partition: int | None
) -> Iterator[list[Message]]:
    if isinstance(topic, Topic):
        return following(topic, places, tag, sees_all=partition is None)
    partitions = range(len(places)) if partition is None else [partition]
    return listening(topic, dict(zip(partitions, places, strict=True)), tag, sees_all=partition is None)


def listening(
    topic: RemoteTopic, places: dict[int, FollowPosition], tag: TagFilter | None, *, sees_all: bool
) -> Iterator[list[Message]]:
    """Does what `following` does with one call to a broker, which waits for all partitions."""
    starts = {partition: place.number for partition, place in places.items()}
    broadcast = topic.broadcast(tag=None if tag is None else tag.text, start=starts)
    while True:
        with suppress(FellBehind):
            page = broadcast.read(PAGE, wait=FOLLOW_WAIT_S)
            messages = [message for message in page if sees_all or message.partition in places]
            if messages:
                yield sorted(messages, key=BY_TIME)


def following(
    topic: Topic, places: list[FollowPosition], tag: TagFilter | None, *, sees_all: bool
) -> Iterator[list[Message]]:
    """Yields messages as they are put. Skips messages that are retired before they are read.

    With `sees_all` it also follows partitions that are added.
    """
    while True:
        messages: list[Message] = []
        for place in places:
            try:
                page = place.log.read_page(place.number, limit=PAGE, tag=tag, wait=0.0)
            except NumberRetired as error:
                place.number = error.first
                continue
            messages += page.messages
            place.number = page.next_number
        if messages:
            yield sorted(messages, key=BY_TIME)
        else:
            logs = [(place.log, place.number) for place in places if isinstance(place.log, Log)]
            wait_for_any(logs, FOLLOW_WAIT_S, topic.clock)
            if sees_all and topic.see_partitions() > len(places):
                places += [FollowPosition(log, log.first) for log in topic.logs[len(places) :]]


def _limited(batches: Iterator[list[Message]], limit: int | None) -> Iterator[list[Message]]:
    """Yields the first `limit` messages, or all without a limit. Does not read a batch that is not needed."""
    remaining = limit
    while remaining is None or remaining > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch[:remaining]
        remaining = None if remaining is None else remaining - len(batch)
