"""Whose batches are looked into record by record, and whose checksums are enough."""

from __future__ import annotations

from warren.broker.peer import Peer
from warren.config import BATCHES_LOOKED_INTO_EACH, BATCHES_LOOKED_INTO_FIRST


def is_looked_into_next(peer: Peer) -> bool:
    """Whether the records of a client's next batch are looked at one by one, and not the checksum of them all alone.

    That costs many times what all else does that is done to a batch. Whoever packs records that cannot be read does so
    with the first ones too.
    """
    count = peer.batch_count
    return count < BATCHES_LOOKED_INTO_FIRST or count % BATCHES_LOOKED_INTO_EACH == 0
