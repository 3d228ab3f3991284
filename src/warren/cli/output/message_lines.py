"""Messages as lines: text for people, JSON for programs; and the pages of a log that they are read in."""

from __future__ import annotations

import base64
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from warren.message import Message
from warren.storage import Log
from warren.storage.format.tags import TagFilter

if TYPE_CHECKING:
    from warren.client.log import RemoteLog

AnyLog: TypeAlias = "Log | RemoteLog"
PAGE: Final = 1_000
FOLLOW_WAIT_S: Final = 1.0
LineMaker = Callable[[Message], str]
WriteMessages = Callable[[Iterable[Message]], None]


def as_text(message: Message) -> str:
    """Returns number, time, tag, key, headers and body, separated by tabs. An absent field is empty.

    Characters that cannot be printed are escaped, so that a message is always one line.
    """
    headers = " ".join(f"{printable_text(name)}={printable(value)}" for name, value in message.headers.items())
    key = "" if message.key is None else printable(message.key)
    time = message.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return "\t".join((str(message.number), time, printable_text(message.tag), key, headers, printable(message.body)))


def as_json(message: Message) -> str:
    """Returns every field of the message as JSON. Bytes are text, or `{"base64": …}` if they are not UTF-8."""
    return json.dumps(json_fields(message), ensure_ascii=False)


def as_topic_text(message: Message) -> str:
    """Returns `as_text` with the partition before the number: `2:41`."""
    return f"{message.partition}:{as_text(message)}"


def as_topic_json(message: Message) -> str:
    """Returns `as_json` with the topic, the partition and the attempt."""
    place = {"topic": message.topic, "partition": message.partition}
    return json.dumps(place | json_fields(message) | {"attempt": message.attempt}, ensure_ascii=False)


def json_fields(message: Message) -> dict[str, Any]:
    """Returns the fields of `as_json` by name."""
    return {
        "number": message.number,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "id": message.id,
        "tag": message.tag,
        "key": None if message.key is None else json_bytes(message.key),
        "headers": {name: json_bytes(value) for name, value in message.headers.items()},
        "corr_offset": message.corr_offset,
        "body": json_bytes(message.body),
    }


def line_maker(*, is_json: bool) -> LineMaker:
    """Returns the function that makes a line of a message."""
    return as_json if is_json else as_text


def topic_writer(*, is_json: bool, is_body: bool) -> WriteMessages:
    """Returns the function that writes messages of a topic to stdout: as text, as JSON, or only the bodies.

    It flushes before it returns.
    """
    if is_body:
        return write_bodies
    line = as_topic_json if is_json else as_topic_text
    return lambda messages: write_lines(messages, line)


def write_lines(messages: Iterable[Message], line: LineMaker) -> None:
    """Writes each message to stdout and flushes, so that the reader of a pipe gets them immediately."""
    sys.stdout.write("".join(f"{line(message)}\n" for message in messages))
    sys.stdout.flush()


def write_bodies(messages: Iterable[Message]) -> None:
    """Writes the bytes of each body to stdout, each followed by a line break, and flushes."""
    sys.stdout.buffer.write(b"".join(message.body + b"\n" for message in messages))
    sys.stdout.flush()


def json_bytes(data: bytes) -> str | dict[str, str]:
    """Returns `data` as text, or as base64 if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def printable(data: bytes) -> str:
    """Returns `data` as text on one line. Characters that cannot be printed are escaped as in a Python string."""
    return printable_text(data.decode(errors="backslashreplace"))


def printable_text(text: str) -> str:
    """Returns `text` on one line, escaped in the same way."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def pages(log: AnyLog, number: int, end: int, tag: TagFilter | None) -> Iterator[list[Message]]:
    """Yields the messages from `number` up to `end` that pass the filter, in pages."""
    while number < end:
        page = log.read_page(number, limit=PAGE, tag=tag, wait=0.0)
        yield [message for message in page.messages if message.number < end]
        number = page.next_number


def last_messages(log: AnyLog, end: int, count: int, tag: TagFilter | None, *, start: int = 0) -> list[Message]:
    """Returns the last `count` messages from `start` up to `end` that pass the filter, in order."""
    if not count or end <= max(log.first, start):
        return []
    newer = takewhile(lambda message: message.number >= start, log.backwards(end - 1))
    passing = (message for message in newer if tag is None or tag.matches(message.tag))
    newest_first = islice(passing, count)
    messages: deque[Message] = deque()
    messages.extendleft(newest_first)
    return list(messages)
