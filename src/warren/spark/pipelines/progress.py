"""The progress of a pipeline: the reports of its query, added up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warren.errors import BadInput
from warren.spark.read.stream_offsets import StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress at one moment.

    `behind` counts the messages that no batch had read by then; None if that is unknown.
    """

    batch: int = -1
    messages: int = 0
    messages_per_s: float = 0.0
    behind: int | None = None
    batch_s: float = 0.0
    time: str = ""

    def after(self, report: Mapping[str, Any]) -> Progress:
        """Returns the progress after Spark's report about the next batch."""
        return Progress(
            batch=int(report["batchId"]),
            messages=self.messages + int(report.get("numInputRows") or 0),
            messages_per_s=float(report.get("processedRowsPerSecond") or 0.0),
            behind=behind(report.get("sources") or []),
            batch_s=float((report.get("durationMs") or {}).get("triggerExecution", 0)) / 1000,
            time=str(report["timestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return asdict(self)


def behind(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns how many messages of the sources were not read yet; None if a source does not report that."""
    total = 0
    for source in sources:
        end, latest = offset_of(source.get("endOffset")), offset_of(source.get("latestOffset"))
        if end is None or latest is None:
            return None
        total += sum(max(0, number - end.numbers.get(place, 0)) for place, number in latest.numbers.items())
    return total if sources else None


def offset_of(report: object) -> StreamOffset | None:
    """Parses an offset of format "warren" in a report of Spark: JSON, sometimes inside a string."""
    try:
        data = json.loads(report) if isinstance(report, str) else report
        return StreamOffset.from_json(data) if isinstance(data, Mapping) else None
    except (ValueError, BadInput):
        return None
