"""What a broker tells of its own accord: one line each on stderr, for people or for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"


class TextLines(logging.Formatter):
    """Time, level and sentence. What is not printable is shown as an escape: no peer can begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname.lower()} {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLogLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the error if there was one."""

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
    """Returns the text on one line, whatever is in it."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def begin_logging(form: str, level: str) -> None:
    """From now on everything that Warren tells goes to stderr in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogLines() if form == JSON else TextLines())
    logger = logging.getLogger("warren")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
