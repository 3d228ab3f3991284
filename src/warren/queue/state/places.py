"""The places of the messages of a batch that went to one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.message import Place


class Places(Sequence[Place]):
    """The places of messages in one partition. Each is created when it is read."""

    def __init__(self, partition: int, numbers: range) -> None:
        self.partition, self.numbers = partition, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return Places(self.partition, self.numbers[row])
        return Place(self.partition, self.numbers[row])

    def __repr__(self) -> str:
        return f"<Places: partition {self.partition}, {self.numbers}>"
