"""What `warren put` answers: where the messages went, in a few lines for people, or one JSON object for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import typer

from warren.message import Place


class Receipts:
    """Shows the places of messages that were put. One thread.

    For people, messages that follow one another in a partition share a line, which is written when the next one goes
    elsewhere, and by `finish`. As JSON each message has a line, written at once.
    """

    def __init__(self, topic: str, *, is_json: bool, is_quiet: bool) -> None:
        self._topic, self._is_json, self._is_quiet = topic, is_json, is_quiet
        self._runs: dict[int, range] = {}
        self.count = 0

    def add(self, places: Sequence[Place]) -> None:
        """These were put."""
        self.count += len(places)
        if self._is_quiet:
            return
        if self._is_json:
            self._write_json(places)
            return
        for partition, number in places:
            self._extend(partition, number)

    def _write_json(self, places: Sequence[Place]) -> None:
        sys.stdout.write(
            "".join(
                json.dumps({"topic": self._topic, "partition": partition, "number": number}) + "\n"
                for partition, number in places
            )
        )
        sys.stdout.flush()

    def _extend(self, partition: int, number: int) -> None:
        run = self._runs.get(partition, range(number, number))
        if number != run.stop:
            self._write_run(partition, run)
            run = range(number, number)
        self._runs[partition] = range(run.start, number + 1)

    def finish(self) -> None:
        """Write what was not written yet."""
        for partition, run in sorted(self._runs.items()):
            self._write_run(partition, run)
        self._runs.clear()

    def _write_run(self, partition: int, run: range) -> None:
        numbers = f"number {run.start}" if len(run) == 1 else f"numbers {run.start} to {run[-1]}"
        typer.echo(f"partition {partition}, {numbers}")
