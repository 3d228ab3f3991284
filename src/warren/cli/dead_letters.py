"""Dead letters as JSON: the message as it was, why it died, and where it lies now."""

from __future__ import annotations

from typing import Any

from warren.cli.lines import json_fields
from warren.queue.dead_letter import HEADER_PREFIX
from warren.queue.letters import Letter


def to_json(letter: Letter) -> dict[str, Any]:
    """One letter as one object."""
    message = letter.message
    own = {name: value for name, value in message.headers.items() if not name.startswith(HEADER_PREFIX)}
    fields = json_fields(message._replace(headers=own))
    lies = {"topic": message.topic, "partition": message.partition}
    lies |= {name: fields.pop(name) for name in ("number", "offset", "timestamp")}
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "number": letter.number,
        "group": letter.group,
        "attempts": letter.attempts,
        "reason": letter.reason,
        **fields,
        "dead": lies,
    }
