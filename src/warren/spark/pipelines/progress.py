"""How far a pipeline came: what Spark last told of its queries, added up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warren.errors import BadInput
from warren.spark.stream_offsets import StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What was done up to one moment. `behind`: how many messages no batch had read then; None if unknown."""

    batch: int = -1
    messages: int = 0
    messages_per_s: float = 0.0
    behind: int | None = None
    batch_s: float = 0.0
    time: str = ""

    def after(self, told: Mapping[str, Any]) -> Progress:
        """The progress when Spark told this of the next batch."""
        return Progress(
            batch=int(told["batchId"]),
            messages=self.messages + int(told.get("numInputRows") or 0),
            messages_per_s=float(told.get("processedRowsPerSecond") or 0.0),
            behind=behind(told.get("sources") or []),
            batch_s=float((told.get("durationMs") or {}).get("triggerExecution", 0)) / 1000,
            time=str(told["timestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Every fact by name."""
        return asdict(self)


def behind(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """How many messages the sources had that were not read; None where one does not tell."""
    total = 0
    for source in sources:
        end, latest = offset_of(source.get("endOffset")), offset_of(source.get("latestOffset"))
        if end is None or latest is None:
            return None
        total += sum(max(0, number - end.numbers.get(place, 0)) for place, number in latest.numbers.items())
    return total if sources else None


def offset_of(told: object) -> StreamOffset | None:
    """An offset of format "warren" as Spark tells it: as JSON, sometimes in a text."""
    try:
        data = json.loads(told) if isinstance(told, str) else told
        return StreamOffset.from_json(data) if isinstance(data, Mapping) else None
    except (ValueError, BadInput):
        return None
