"""How far a pipeline came: what Spark last told of its queries, added up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


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
        """The progress when Spark told this of the next batch, or again of the last one."""
        batch = int(told["batchId"])
        is_same = batch == self.batch and told["timestamp"] == self.time
        read = int(told.get("numInputRows") or 0)
        return Progress(
            batch=batch,
            messages=self.messages if is_same else self.messages + read,
            messages_per_s=float(told.get("processedRowsPerSecond") or 0.0),
            behind=behind(told.get("sources") or []),
            batch_s=float((told.get("durationMs") or {}).get("triggerExecution", 0)) / 1000,
            time=str(told["timestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Every fact by name."""
        return asdict(self)


def behind(sources: list[Mapping[str, Any]]) -> int | None:
    """How many messages the sources had that were not read; None where one does not tell."""
    total = 0
    for source in sources:
        end, latest = _numbers(source.get("endOffset")), _numbers(source.get("latestOffset"))
        if end is None or latest is None:
            return None
        total += sum(max(0, number - end.get(place, 0)) for place, number in latest.items())
    return total if sources else None


def _numbers(offset: Any) -> dict[tuple[str, str], int] | None:
    """The number for each topic and partition in an offset of format "warren"."""
    try:
        told = json.loads(offset) if isinstance(offset, str) else offset
        ends = told["end"]
        return {(topic, partition): int(number) for topic, by in ends.items() for partition, number in by.items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
