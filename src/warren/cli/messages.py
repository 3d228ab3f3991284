"""Messages of a log written to the terminal or a pipe, one a line: a range of them, or the last and what follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from warren.cli.lines import Line, line_maker, write_lines
from warren.cli.target import open_to_read
from warren.errors import NumberRetired
from warren.message import Message
from warren.storage import Log
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.log import RemoteLog

AnyLog: TypeAlias = "Log | RemoteLog"
PAGE: Final = 1_000
FOLLOW_WAIT_S: Final = 1.0


def dump(path: str, start: int | None, end: int | None, tag: str | None, *, is_json: bool) -> None:
    """Write the messages from `start` up to `end` that pass the filter."""
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    with open_to_read(path) as log:
        first = log.first if start is None else start
        last_end = log.end if end is None else min(end, log.end)
        for page in pages(log, first, last_end, tag_filter):
            write_lines(page, line_maker(is_json=is_json))


def tail(path: str, count: int, tag: str | None, *, is_following: bool, is_json: bool) -> None:
    """Write the last `count` messages that pass the filter; then, if asked to, whatever is appended until stopped."""
    tag_filter = TagFilter.parse(tag) if tag is not None else None
    line = line_maker(is_json=is_json)
    with open_to_read(path) as log:
        number = log.end
        write_lines(last_messages(log, number, count, tag_filter), line)
        if is_following:
            # Ctrl-C is how a person stops following: it is not a failure.
            with suppress(KeyboardInterrupt):
                follow(log, number, tag_filter, line)


def pages(log: AnyLog, number: int, end: int, tag: TagFilter | None) -> Iterator[list[Message]]:
    """The messages from `number` up to `end` that pass the filter, page by page."""
    while number < end:
        page = log.read_page(number, limit=PAGE, tag=tag, wait=0.0)
        yield [message for message in page.messages if message.number < end]
        number = page.next_number


def last_messages(log: AnyLog, end: int, count: int, tag: TagFilter | None, *, start: int = 0) -> list[Message]:
    """The last `count` messages from `start` up to `end` that pass the filter, in order."""
    if not count or end <= max(log.first, start):
        return []
    newer = takewhile(lambda message: message.number >= start, log.backwards(end - 1))
    passing = (message for message in newer if tag is None or tag.matches(message.tag))
    newest_first = islice(passing, count)
    found: deque[Message] = deque()
    found.extendleft(newest_first)
    return list(found)


def follow(log: Log, number: int, tag: TagFilter | None, line: Line) -> None:
    """Write messages from `number` on as they come. One that is retired before it is written is passed over."""
    while True:
        try:
            page = log.read_page(number, limit=PAGE, tag=tag, wait=FOLLOW_WAIT_S)
        except NumberRetired as error:
            number = error.first
            continue
        write_lines(page.messages, line)
        number = page.next_number
