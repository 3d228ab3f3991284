"""Extracts from Spark's tracebacks why a query failed, in one sentence."""

from __future__ import annotations

import re
from typing import Final

from warren.errors import PipelineFailed

REMEDY: Final = "finished batches are kept, and the next run continues after them"
OURS: Final = re.compile(r"^(?:\s*|.*PythonException: )warren\.errors\.\w+: (.+)$", re.MULTILINE)
RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?) SQLSTATE", re.DOTALL)
PYTHON: Final = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
CLASSED: Final = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] (?=(.+?)(?: SQLSTATE| \[[A-Z_.]+\]|$))", re.MULTILINE)
WRAPPERS: Final = frozenset({"STREAM_FAILED", "FAILED_EXECUTE_UDF", "PYTHON_DATA_SOURCE_ERROR", "WRITING_JOB_ABORTED"})
REASON_CHARACTERS_MAX: Final = 500
PASSING: Final = re.compile(r"Task not serializable|Python worker failed to connect back")
"""Temporary failures of Spark: queries that start at the same time, and a machine too busy to start a process."""


def failed(pipeline: str, text: str) -> PipelineFailed:
    """Returns the error of a pipeline whose query failed with `text`."""
    return PipelineFailed(pipeline, reason_of(text)[:REASON_CHARACTERS_MAX], REMEDY)


def is_passing(text: str) -> bool:
    """Returns whether a query that failed with `text` may be started again, because no error of Warren caused it."""
    return PASSING.search(text) is not None and OURS.search(text) is None


def reason_of(text: str) -> str:
    """Returns the innermost cause in `text`: an error of Warren, otherwise one of a step, otherwise one of Spark."""
    ours = OURS.findall(text)
    if ours:
        return str(ours[-1]).strip().rstrip(".")
    raised = RAISED.search(text)
    if raised:
        return raised[1].strip()
    python = PYTHON.findall(text)
    if python:
        kind, sentence = python[-1]
        return f"{kind}: {sentence}".strip().rstrip(".")
    sentences = [sentence for name, sentence in CLASSED.findall(text) if name not in WRAPPERS]
    return (sentences[-1] if sentences else text.strip().partition("\n")[0]).strip().rstrip(".")
