"""The broker's log on stderr: one line per event, as text or JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"


class TextLines(logging.Formatter):
    """Formats time, level and message. Escapes unprintable characters, so that no peer can begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname.lower()} {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLogLines(logging.Formatter):
    """Formats one JSON object per line: time, level, logger, message, and the error if there was one."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def printable(text: str) -> str:
    """Returns the text on one line, with unprintable characters escaped."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def begin_logging(form: str, level: str) -> None:
    """Sends Warren's log to stderr in this form from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogLines() if form == JSON else TextLines())
    logger = logging.getLogger("warren")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
