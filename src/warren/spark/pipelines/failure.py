"""What a query died of, in one sentence: dug out of the tracebacks that Spark wraps around it."""

from __future__ import annotations

import re
from typing import Final

from warren.errors import PipelineFailed

REMEDY: Final = "what it finished is kept, and the next run goes on from there"
OURS: Final = re.compile(r"^(?:\s*|.*PythonException: )warren\.errors\.\w+: (.+)$", re.MULTILINE)
RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?) SQLSTATE", re.DOTALL)
PYTHON: Final = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
CLASSED: Final = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] (?=(.+?)(?: SQLSTATE| \[[A-Z_.]+\]|$))", re.MULTILINE)
WRAPPERS: Final = frozenset({"STREAM_FAILED", "FAILED_EXECUTE_UDF", "PYTHON_DATA_SOURCE_ERROR", "WRITING_JOB_ABORTED"})
REASON_CHARACTERS_MAX: Final = 500
PASSING: Final = re.compile(r"Task not serializable|Python worker failed to connect back")
"""What Spark runs into by chance: queries that start at the same time, and a machine too busy to start a process."""


def failed(pipeline: str, text: str) -> PipelineFailed:
    """The failure of a pipeline whose query died with `text`."""
    return PipelineFailed(pipeline, reason_of(text)[:REASON_CHARACTERS_MAX], REMEDY)


def is_passing(text: str) -> bool:
    """Whether a query that died with `text` may go on where it is started again: nothing of ours was at fault."""
    return PASSING.search(text) is not None and OURS.search(text) is None


def reason_of(text: str) -> str:
    """The innermost cause that `text` tells of: Warren's own error, else what a step raised, else what Spark says."""
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
    told = [sentence for name, sentence in CLASSED.findall(text) if name not in WRAPPERS]
    return (told[-1] if told else text.strip().partition("\n")[0]).strip().rstrip(".")
