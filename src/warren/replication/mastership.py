"""How a mastership begins and how it is handed over: the steps as tables. A pair that is not in them is an error."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Promotion(Enum):
    """The steps of a replica from winning an epoch to serving it."""

    KEEPING_EPOCHS = auto()
    """It fetches no more. The entry of the epoch, with its tails, is written to disk before any record of the epoch."""
    OPENING = auto()
    """Barrier 1 waits for the set. The store is being opened."""
    OPENED = auto()
    """The store is open. Barrier 1 is not done."""
    COMMITTED = auto()
    """The whole set has all tails, so readers may see them. The store is not open yet."""
    SERVING = auto()
    """Requests are accepted."""


class PromotionEvent(Enum):
    """What a promotion waits for."""

    EPOCHS_KEPT = auto()
    STORE_OPENED = auto()
    FIRST_BARRIER_DONE = auto()


PROMOTION: Final[dict[tuple[Promotion, PromotionEvent], Promotion]] = {
    (Promotion.KEEPING_EPOCHS, PromotionEvent.EPOCHS_KEPT): Promotion.OPENING,
    (Promotion.OPENING, PromotionEvent.STORE_OPENED): Promotion.OPENED,
    (Promotion.OPENING, PromotionEvent.FIRST_BARRIER_DONE): Promotion.COMMITTED,
    (Promotion.OPENED, PromotionEvent.FIRST_BARRIER_DONE): Promotion.SERVING,
    (Promotion.COMMITTED, PromotionEvent.STORE_OPENED): Promotion.SERVING,
}


class HandOver(Enum):
    """The steps in which a master hands over to a named slave."""

    NOT_WANTED = auto()
    DRAINING = auto()
    """No puts are accepted. The master waits until every barrier that it gave is done."""
    PROPOSED = auto()
    """Reads have stopped, and the registry was asked to make the slave master. This cannot be taken back."""
    ENDED = auto()


class HandOverEvent(Enum):
    """What a hand-over waits for."""

    WANTED = auto()
    DRAINED = auto()
    TIMED_OUT = auto()
    ANSWERED = auto()


HAND_OVER: Final[dict[tuple[HandOver, HandOverEvent], HandOver]] = {
    (HandOver.NOT_WANTED, HandOverEvent.WANTED): HandOver.DRAINING,
    (HandOver.DRAINING, HandOverEvent.WANTED): HandOver.DRAINING,
    (HandOver.DRAINING, HandOverEvent.DRAINED): HandOver.PROPOSED,
    (HandOver.DRAINING, HandOverEvent.TIMED_OUT): HandOver.NOT_WANTED,
    # The process ends after every outcome: if the registry refused, or its answer was lost, an election follows.
    (HandOver.PROPOSED, HandOverEvent.ANSWERED): HandOver.ENDED,
    (HandOver.PROPOSED, HandOverEvent.WANTED): HandOver.PROPOSED,
}
