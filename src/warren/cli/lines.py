"""One message as one line: as text for people, or as JSON for programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from warren.message import Message

Line = Callable[[Message], str]


def as_text(message: Message) -> str:
    """Number, time, tag, key, headers and body, split by tabs; what is absent is left empty.

    Bytes that are not printable text are escaped, so that a message always is one line.
    """
    headers = " ".join(f"{name}={printable(value)}" for name, value in message.headers.items())
    key = "" if message.key is None else printable(message.key)
    time = message.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return "\t".join((str(message.number), time, message.tag, key, headers, printable(message.body)))


def as_json(message: Message) -> str:
    """Every field of the message as a JSON object. Bytes are text, or `{"base64": …}` where they are not UTF-8."""
    return json.dumps(
        {
            "number": message.number,
            "offset": message.offset,
            "timestamp": message.timestamp,
            "id": message.id,
            "tag": message.tag,
            "key": None if message.key is None else json_bytes(message.key),
            "headers": {name: json_bytes(value) for name, value in message.headers.items()},
            "corr_offset": message.corr_offset,
            "body": json_bytes(message.body),
        },
        ensure_ascii=False,
    )


def line_maker(*, is_json: bool) -> Line:
    """How to make a line of a message."""
    return as_json if is_json else as_text


def json_bytes(data: bytes) -> str | dict[str, str]:
    """`data` as text, or as base64 where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def printable(data: bytes) -> str:
    """`data` as text on one line: what cannot be printed is escaped as in a Python string."""
    text = data.decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
