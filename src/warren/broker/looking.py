"""Whose batches are looked into record by record, and whose checksums are enough."""

from __future__ import annotations

from warren.broker.peer import Peer
from warren.config import BATCHES_LOOKED_INTO_EACH, BATCHES_LOOKED_INTO_FIRST


def is_looked_into_next(peer: Peer) -> bool:
    """Returns whether every record of a client's next batch is checked, and not only the checksum of the batch.

    Checking every record costs many times as much as the rest of the work for a batch. A client that packs records
    wrongly does so from its first batch on, so the first ones are checked, and then one of many. Readers pass over
    what is missed (decision 27).
    """
    count = peer.batch_count
    return count < BATCHES_LOOKED_INTO_FIRST or count % BATCHES_LOOKED_INTO_EACH == 0
