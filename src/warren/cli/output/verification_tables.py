"""What `warren cluster verify` shows of one shard: a table for people, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from warren.broker.cluster.overview import ShardOverview
from warren.cli.output.tables import table
from warren.cli.running.shard_verification import CATCHING_UP
from warren.replication.comparison import Compared


class ShardVerification:
    """What the comparison of one shard has found."""

    def __init__(self, shard: ShardOverview, results: Sequence[Compared]) -> None:
        self.shard, self.results = shard, results

    @property
    def fault(self) -> str:
        """The first difference, or why a replica could not be compared; empty if all that was compared is equal."""
        for result in self.results:
            if result.differences:
                return str(result.differences[0])
        for result in self.results:
            if result.lost:
                return f"replica {result.replica} was not compared: {result.lost}"
        return ""

    def to_json(self) -> dict[str, Any]:
        state = None if self.shard.view is None else self.shard.view.state
        return {
            "shard": self.shard.shard,
            "epoch": None if state is None else state.epoch,
            "compared_with": self.results[0].replica if self.results else None,
            "is_equal": not self.fault,
            "fault": self.fault,
            "replicas": [
                {"role": self.shard.role(each.replica), **asdict(each)}
                for each in sorted(self.results, key=lambda each: each.replica)
            ],
        }

    def table(self) -> Table:
        """Returns a table for people, with one replica in each row."""
        rows = table(f"shard {self.shard.shard}, compared with replica {self.results[0].replica}")
        for name in ("replica", "role"):
            rows.add_column(name, no_wrap=True)
        for name in ("logs", "messages", "files", "behind"):
            rows.add_column(name, justify="right")
        rows.add_column("result")
        for each in sorted(self.results, key=lambda each: each.replica):
            role = self.shard.role(each.replica)
            counts = [f"{count:,}" for count in (each.logs, each.messages, each.files, each.behind)]
            rows.add_row(str(each.replica), role, *counts, _result(each, role))
        return rows


def _result(compared: Compared, role: str) -> Text:
    if compared.differences:
        more = f" (and {len(compared.differences) - 1:,} more)" if len(compared.differences) > 1 else ""
        first = compared.differences[0]
        return Text(f"{first.what} {first.says}{more}", style="red")
    if compared.lost:
        return Text(compared.lost, style="red")
    if role == CATCHING_UP or compared.files_behind:
        return Text("equal in the records that it has", style="yellow")
    if compared.behind:
        return Text("equal up to where it is", style="green")
    return Text("equal", style="green")
