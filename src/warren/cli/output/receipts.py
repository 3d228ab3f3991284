"""The receipts of `warren put`: a few lines for people, or one JSON object for each message."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import typer

from warren.cli.output.tables import time_text
from warren.message import Place
from warren.queue.delay.handles import Delayed


class Receipts:
    """Shows the places of messages that were put. One thread.

    For people, consecutive messages of a partition share a line. It is written by `finish`, or when a message does not
    follow the one before. As JSON each message has its own line, written immediately.
    """

    def __init__(self, topic: str, *, is_json: bool, is_quiet: bool) -> None:
        self._topic, self._is_json, self._is_quiet = topic, is_json, is_quiet
        self._runs: dict[int, range] = {}

    def add(self, places: Sequence[Place]) -> None:
        """Adds the receipts of messages that were put."""
        if self._is_json:
            self._write(
                {"topic": self._topic, "partition": partition, "number": number} for partition, number in places
            )
        elif not self._is_quiet:
            for partition, number in places:
                self._extend(partition, number)

    def add_delayed(self, handles: Sequence[Delayed]) -> None:
        """Adds the receipts of messages that are parked until they are due."""
        if self._is_json:
            self._write({"topic": self._topic, "id": handle.id, "due": handle.due_us} for handle in handles)
        elif not self._is_quiet:
            for handle in handles:
                typer.echo(f"due {time_text(handle.due_us)} UTC, id {handle.id}")

    def _write(self, receipts: Iterable[Mapping[str, object]]) -> None:
        if not self._is_quiet:
            sys.stdout.write("".join(f"{json.dumps(receipt)}\n" for receipt in receipts))
            sys.stdout.flush()

    def _extend(self, partition: int, number: int) -> None:
        run = self._runs.get(partition, range(number, number))
        if number != run.stop:
            self._write_run(partition, run)
            run = range(number, number)
        self._runs[partition] = range(run.start, number + 1)

    def finish(self) -> None:
        """Writes the receipts that are not written yet."""
        for partition, run in sorted(self._runs.items()):
            self._write_run(partition, run)
        self._runs.clear()

    def _write_run(self, partition: int, run: range) -> None:
        numbers = f"number {run.start}" if len(run) == 1 else f"numbers {run.start} to {run[-1]}"
        typer.echo(f"partition {partition}, {numbers}")
