"""The epochs that a replica has seen, and where a slave has to cut its logs to agree with a master."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from warren.errors import MalformedState
from warren.replication.shard_state import is_count, parse_json
from warren.storage.disk import paths

EPOCHS_PATH: Final = paths.EPOCHS_PATH
EPOCHS_MAX: Final = 16
"""How many of the latest epochs are kept. A replica that shares none of them with the master starts from nothing."""
WHAT: Final = "list of epochs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """An epoch, its master, and the ends that the master's logs had when it began."""

    epoch: int
    master: int
    began: str
    tails: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Epochs:
    """The latest epochs of a replica's history, oldest first. The list is immutable.

    Invariant on disk: a replica that has a record of an epoch has the entry of that epoch, and the entries of all
    earlier epochs that the master had. So up to the tails of an entry, its logs equal those of that entry's master.
    """

    entries: tuple[Epoch, ...] = ()

    @staticmethod
    def founded(began: str) -> Epochs:
        """Returns the list of a new store: epoch 0, in which it was empty.

        All replicas of a shard share this entry. Without it, a member that has seen only the first epoch, and a master
        of the second one that has not, would have none in common, and the member would give up its copy.
        """
        return Epochs((Epoch(epoch=0, master=0, began=began, tails={}),))

    @property
    def last(self) -> int:
        """The latest epoch; 0 if there is none."""
        return self.entries[-1].epoch if self.entries else 0

    def begun(self, entry: Epoch) -> Epochs:
        """Returns the list with one more epoch, and without the oldest one if it would be too long."""
        assert entry.epoch > self.last
        return Epochs((*self.entries, entry)[-EPOCHS_MAX:])

    def to_json(self) -> bytes:
        value = [
            {"epoch": entry.epoch, "master": entry.master, "began": entry.began, "tails": dict(entry.tails)}
            for entry in self.entries
        ]
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def from_json(data: bytes) -> Epochs:
        """Raises MalformedState if `data` is not what `to_json` writes."""
        value = parse_json(data, WHAT)
        if not isinstance(value, list):
            raise MalformedState(WHAT, "it is not a list")
        if len(value) > EPOCHS_MAX:
            raise MalformedState(WHAT, f"it has {len(value)} epochs, more than {EPOCHS_MAX}")
        entries = tuple(map(_entry, value))
        numbers = [entry.epoch for entry in entries]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise MalformedState(WHAT, f"its epochs do not grow: {numbers}")
        return Epochs(entries)


def cuts(
    mine: Epochs, masters: Epochs, my_tails: Mapping[str, int], masters_tails: Mapping[str, int]
) -> dict[str, int] | None:
    """Returns where a slave cuts each of its logs that the master also has; None if it has to start from nothing.

    Up to the end of the latest epoch that both have, the logs of both are copies of those of that epoch's master.
    Each side knows this end only for its own logs (KIP-101 and KIP-279), so the smaller one is safe.
    """
    numbers = {entry.epoch for entry in masters.entries}
    common = next((entry.epoch for entry in reversed(mine.entries) if entry.epoch in numbers), None)
    if common is None:
        is_empty = mine.last == 0 and not any(my_tails.values())
        return {log: 0 for log in my_tails if log in masters_tails} if is_empty else None
    return {
        log: min(tail, _end(mine, common, log, tail), _end(masters, common, log, masters_tails[log]))
        for log, tail in my_tails.items()
        if log in masters_tails
    }


def _end(epochs: Epochs, common: int, log: str, tail: int) -> int:
    """Returns where the epoch `common` ends in a log: the lowest tail of all epochs after it, or the tail of the log.

    The tail of the next epoch alone is not enough. A replica may keep the entry of an epoch, lose that master before it
    has all its records, and lead the epoch after that with a shorter log.
    """
    # A log that an entry does not name was made later.
    return min((entry.tails.get(log, 0) for entry in epochs.entries if entry.epoch > common), default=tail)


def _entry(value: Any) -> Epoch:
    if not isinstance(value, dict) or not {"epoch", "master", "began", "tails"} <= value.keys():
        raise MalformedState(WHAT, "an entry needs epoch, master, began and tails")
    epoch, master, began, tails = value["epoch"], value["master"], value["began"], value["tails"]
    if not is_count(epoch) or not is_count(master) or not isinstance(began, str):
        raise MalformedState(WHAT, f"epoch {epoch!r}, master {master!r} or began {began!r} has the wrong type")
    if not isinstance(tails, dict) or not all(map(is_count, tails.values())):
        raise MalformedState(WHAT, f"the tails of epoch {epoch} are not ends of logs")
    return Epoch(epoch=epoch, master=master, began=began, tails=tails)
