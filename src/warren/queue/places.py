"""Places: where the messages of a batch went that all went to one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.message import Place


class Places(Sequence[Place]):
    """The places of messages that went to one partition, made when they are looked at."""

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
