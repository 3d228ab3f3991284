"""The contract: protocols of what `warren.open` and `warren.connect` return, for embedded and remote stores.

Annotate with these types in code that works with both: `def load(store: warren.api.Store) -> None`. The asyncio objects
of `warren.aio` have the same methods as coroutines. mypy checks all three against this module
(`tests/contract/test_types.py`), and `tests/contract` runs the same tests on all three.

Deliberately not included: files, readers, retention and verification of a `Log`, and `Store.keep`, because a client of
a broker has no files; and `append` on a partition, because `Topic.put` with `partition` does the same.
"""

from __future__ import annotations

from warren.api.store import Batching, PutFuture, Store, Transaction
from warren.api.topic import Broadcast, Closing, Log, QueueGroup, StreamGroup, Topic
from warren.api.values import (
    BatchingOptions,
    ColumnOptions,
    DeadLetter,
    Delayed,
    FieldOptions,
    GroupDescription,
    GroupOptions,
    GroupSettings,
    MessageFields,
    MessageOptions,
    PreparedTransaction,
    PutBackPart,
    PutManyOptions,
    PutOptions,
    Scheduled,
    TopicDescription,
    TopicSettings,
    When,
    Where,
)

__all__ = [
    "Batching",
    "BatchingOptions",
    "Broadcast",
    "Closing",
    "ColumnOptions",
    "DeadLetter",
    "Delayed",
    "FieldOptions",
    "GroupDescription",
    "GroupOptions",
    "GroupSettings",
    "Log",
    "MessageFields",
    "MessageOptions",
    "PreparedTransaction",
    "PutBackPart",
    "PutFuture",
    "PutManyOptions",
    "PutOptions",
    "QueueGroup",
    "Scheduled",
    "Store",
    "StreamGroup",
    "Topic",
    "TopicDescription",
    "TopicSettings",
    "Transaction",
    "When",
    "Where",
]
