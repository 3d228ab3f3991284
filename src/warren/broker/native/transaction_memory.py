"""The memory of open transactions of Warren's own clients. What the budget has no room for goes to the journal."""

from __future__ import annotations

from warren.broker.services.memory_budget import Hold, MemoryBudget, MemoryKind
from warren.transaction.transaction import Transaction


class TransactionMemory:
    """The bytes that each transaction takes from the budget. For the event loop's thread alone.

    A transaction that is over holds nothing, even if another client ended it; the next `recount` sees it at the latest.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._holds: dict[Transaction, Hold] = {}

    def count(self, transaction: Transaction, owner: str) -> bool:
        """Counts what the transaction holds now. Returns False if there is no room: the caller then spills it."""
        hold, size = self._holds.get(transaction), transaction.size
        more = size if hold is None else size - hold.size
        if more > 0 and not self._budget.may_keep(more, owner):
            self.recount()
            if not self._budget.may_keep(more, owner):
                self._budget.refusals += 1
                return False
        if hold is None and size:
            self._holds[transaction] = self._budget.hold(MemoryKind.TRANSACTIONS, size, owner)
        elif hold is not None:
            self._resize(transaction, hold, size)
        return True

    def recount(self) -> None:
        """Gives back the memory of transactions that have ended or were spilled."""
        for transaction, hold in list(self._holds.items()):
            self._resize(transaction, hold, min(hold.size, transaction.size))

    def _resize(self, transaction: Transaction, hold: Hold, size: int) -> None:
        if not size:
            del self._holds[transaction]
        if size != hold.size:
            hold.resize(size)
