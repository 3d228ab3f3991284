"""One message as one line: as text for people, or as JSON for programs."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from warren.message import Message

Line = Callable[[Message], str]
Write = Callable[[Iterable[Message]], None]


def as_text(message: Message) -> str:
    """Number, time, tag, key, headers and body, split by tabs; what is absent is left empty.

    What is not printable is escaped, so that a message always is one line.
    """
    headers = " ".join(f"{printable_text(name)}={printable(value)}" for name, value in message.headers.items())
    key = "" if message.key is None else printable(message.key)
    time = message.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return "\t".join((str(message.number), time, printable_text(message.tag), key, headers, printable(message.body)))


def as_json(message: Message) -> str:
    """Every field of the message as a JSON object. Bytes are text, or `{"base64": …}` where they are not UTF-8."""
    return json.dumps(json_fields(message), ensure_ascii=False)


def as_topic_text(message: Message) -> str:
    """As `as_text`, with the partition before the number: `2:41`."""
    return f"{message.partition}:{as_text(message)}"


def as_topic_json(message: Message) -> str:
    """As `as_json`, with the topic and partition, and how often the message was handed out."""
    place = {"topic": message.topic, "partition": message.partition}
    return json.dumps(place | json_fields(message) | {"attempt": message.attempt}, ensure_ascii=False)


def json_fields(message: Message) -> dict[str, Any]:
    """What `as_json` writes, by name."""
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


def line_maker(*, is_json: bool) -> Line:
    """How to make a line of a message."""
    return as_json if is_json else as_text


def topic_writer(*, is_json: bool, is_body: bool) -> Write:
    """How to write messages of a topic to stdout: as text, as JSON, or the bodies alone. All are out on return."""
    if is_body:
        return write_bodies
    line = as_topic_json if is_json else as_topic_text
    return lambda messages: write_lines(messages, line)


def write_lines(messages: Iterable[Message], line: Line) -> None:
    """Write each message to stdout, and hold nothing back: whoever reads a pipe sees them at once."""
    sys.stdout.write("".join(f"{line(message)}\n" for message in messages))
    sys.stdout.flush()


def write_bodies(messages: Iterable[Message]) -> None:
    """Write each body to stdout, byte by byte as it is, and a line break."""
    sys.stdout.buffer.write(b"".join(message.body + b"\n" for message in messages))
    sys.stdout.flush()


def json_bytes(data: bytes) -> str | dict[str, str]:
    """`data` as text, or as base64 where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def printable(data: bytes) -> str:
    """`data` as text on one line: what cannot be printed is escaped as in a Python string."""
    return printable_text(data.decode(errors="backslashreplace"))


def printable_text(text: str) -> str:
    """`text` on one line, in the same way."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
