"""The sequence numbers of the producers of one partition. A batch that is sent twice is written once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from warren.broker.kafka.errors import Code
from warren.storage.format.layout import KafkaBatchHead

PRODUCERS_REMEMBERED_MAX: Final = 10_000
"""How many producers are remembered in each partition."""

REMEMBERED: Final = 5
"""How many batches a producer may have in flight, and how many of its last batches are recognized as duplicates."""
SEQUENCE_END: Final = 1 << 31
NOWHERE: Final = -1


class StoredBatch(NamedTuple):
    """An accepted batch: its sequence numbers, and the number of its first message, or a future of it."""

    first: int
    last: int
    stored: int | asyncio.Future[int]

    @property
    def is_on_its_way(self) -> bool:
        return not isinstance(self.stored, int)


@dataclass(slots=True)
class ProducerState:
    """The batches of one producer in its latest epoch. `expected` is the next sequence number; None for any."""

    epoch: int
    expected: int | None = None
    batches: deque[StoredBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class Sequences:
    """The producers of one partition. For one thread at a time.

    Invariant: a batch is in here from the time it was accepted. If storing it fails, it is removed with all batches
    after it, and is expected next. A producer that is new or forgotten may begin with any sequence number.
    """

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def judge(self, head: KafkaBatchHead) -> Code | StoredBatch | None:
        """Returns None if the batch is new, the stored batch if it is a duplicate, or the error that refuses it."""
        first, last = span(head)
        if first < 0 or head.producer_epoch < 0:
            return Code.INVALID_RECORD
        producer = self._producers.get(head.producer_id)
        if producer is None:
            return None
        if head.producer_epoch < producer.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if head.producer_epoch > producer.epoch:
            return None if first == 0 else Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        for batch in producer.batches:
            if (batch.first, batch.last) == (first, last):
                return batch
        return None if producer.expected in (None, first) else Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    def on_its_way(self, producer_id: int) -> asyncio.Future[int] | None:
        """Returns the future of the producer's latest batch if that is not stored yet; None otherwise."""
        producer = self._producers.get(producer_id)
        stored = producer.batches[-1].stored if producer is not None and producer.batches else 0
        return None if isinstance(stored, int) else stored

    def take(self, head: KafkaBatchHead, stored: int | asyncio.Future[int]) -> None:
        """Adds a batch that `judge` accepted. `stored` is its first number, or a future of it."""
        producer = self._producers.pop(head.producer_id, None)
        if producer is None or producer.epoch != head.producer_epoch:
            producer = ProducerState(head.producer_epoch)
        # The producer moves to the end of the order, because the least recently active producers are forgotten first.
        self._producers[head.producer_id] = producer
        first, last = span(head)
        producer.batches.append(StoredBatch(first, last, stored))
        producer.expected = (last + 1) % SEQUENCE_END
        while len(self._producers) > PRODUCERS_REMEMBERED_MAX:
            del self._producers[next(iter(self._producers))]

    def stored(self, head: KafkaBatchHead, number: int) -> None:
        """Records that an added batch is stored."""
        producer = self._of_epoch(head)
        for place, batch in enumerate(producer.batches if producer is not None else ()):
            if producer is not None and (batch.first, batch.last) == span(head) and batch.is_on_its_way:
                producer.batches[place] = batch._replace(stored=number)

    def refuse(self, head: KafkaBatchHead) -> None:
        """Records that a batch that `judge` accepted was not stored, so that it is expected next."""
        self.take(head, NOWHERE)
        self.failed(head)

    def failed(self, head: KafkaBatchHead) -> None:
        """Removes an added batch whose storing failed, and all batches that were added after it."""
        producer, (first, last) = self._of_epoch(head), span(head)
        if producer is None or not any((batch.first, batch.last) == (first, last) for batch in producer.batches):
            return
        while producer.batches.pop().first != first:
            pass
        # Also if no batch is left, because a batch that was sent later must not be stored before this one.
        producer.expected = first

    def _of_epoch(self, head: KafkaBatchHead) -> ProducerState | None:
        producer = self._producers.get(head.producer_id)
        return producer if producer is not None and producer.epoch == head.producer_epoch else None

    # --- Across restarts ---

    def learn(self, head: KafkaBatchHead, number: int) -> None:
        """Adds a batch that is in the log at `number`, after all batches that were added before."""
        producer = self._producers.get(head.producer_id)
        if producer is not None and (producer.epoch > head.producer_epoch or _last_number(producer) >= number):
            return
        self.take(head, number)

    def to_json(self) -> list[Any]:
        """Returns the stored batches as JSON, without those in flight. The most recently active producer is last."""
        return [
            [id, producer.epoch, [list(batch) for batch in producer.batches if not batch.is_on_its_way]]
            for id, producer in self._producers.items()
        ]

    def restore(self, data: Iterable[Any]) -> None:
        """Loads what `to_json` returned. Raises ValueError or TypeError if `data` is something else."""
        for id, epoch, rows in data:
            batches = deque(
                (StoredBatch(int(first), int(last), int(number)) for first, last, number in rows), REMEMBERED
            )
            expected = (batches[-1].last + 1) % SEQUENCE_END if batches else None
            self._producers[int(id)] = ProducerState(int(epoch), expected, batches)

    def batches(self) -> list[tuple[int, int, StoredBatch]]:
        """Returns every remembered batch, with the id and epoch of its producer."""
        return [(id, producer.epoch, batch) for id, producer in self._producers.items() for batch in producer.batches]


def _last_number(producer: ProducerState) -> int:
    """Returns the number of the last stored batch; -1 if there is none."""
    return max((batch.stored for batch in producer.batches if isinstance(batch.stored, int)), default=-1)


def span(head: KafkaBatchHead) -> tuple[int, int]:
    """Returns the first and the last sequence number of a batch."""
    return head.base_sequence, (head.base_sequence + head.record_count - 1) % SEQUENCE_END
