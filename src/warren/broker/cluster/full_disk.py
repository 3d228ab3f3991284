"""FullDisk: a master whose disk is full lets another replica lead, but the lead does not go to and fro."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from warren.errors import WarrenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warren.broker.cluster.node import ReplicaNode
    from warren.replication.epochs import Epoch

LOGGER: Final = logging.getLogger("warren.broker")
FULL_DISK_PAUSE_S: Final = 600.0
"""For this long a master with a full disk does not try again to hand over, and does not choose a replica that led.

So of replicas that are all full each one leads once, and then the last one stays master.
"""


class FullDisk:
    """What one replica does about its full disk while it leads. For the event loop's thread."""

    def __init__(self, node: ReplicaNode) -> None:
        self._node = node
        self._try_at = self._say_at = 0.0

    def refused(self) -> None:
        """Takes the event that a request was refused because the disk is full. Hands over if that may help."""
        node, now = self._node, self._node.now()
        if node.master is None or node.is_handing_over or now < self._try_at:
            return
        for successor in self._successors():
            with suppress(WarrenError):
                node.hand_over(successor)
                LOGGER.warning(
                    "the disk of replica %d is full, so replica %d shall lead", node.setup.replica, successor
                )
                self._try_at = now + FULL_DISK_PAUSE_S
                return
        if now >= self._say_at:
            LOGGER.warning("the disk of replica %d is full, and no other replica can lead instead", node.setup.replica)
            self._say_at = now + FULL_DISK_PAUSE_S

    def _successors(self) -> Sequence[int]:
        """Returns the members of the in-sync set that may lead instead; none if the set has no member to spare.

        As a slave this replica leaves the set, because it has no room for what the next master puts.
        """
        master = self._node.master
        assert master is not None
        if len(master.insync.members) <= master.insync.min_insync:
            return ()
        since_s = self._node.clock.now_ns() / 1e9 - FULL_DISK_PAUSE_S
        # Every store begins with epoch 0, which no replica has led.
        led = pairwise(entry for entry in master.epochs.entries if entry.epoch > 0)
        recent = {entry.master for entry, following in led if _began_s(following) > since_s}
        return [each for each in self._node.candidates() if each not in recent]


def _began_s(entry: Epoch) -> float:
    return datetime.fromisoformat(entry.began).timestamp()
