"""The disk of one simulated replica: logs, state files and the list of epochs, and which part of each is synced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from warren.replication.epochs import Epochs

Record = tuple[int, int]
"""The epoch in which a record was written, and a value that no other record has."""
Slots = tuple[Record, Record]
"""A state file: two slots that are written in turn, as in the position file of a reader."""
EMPTY: Final[Slots] = ((0, 0), (0, 0))


class ReplicaDisk:
    """Contents of files, and the part that survives a power cut. A process that is killed loses nothing it wrote."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.logs: dict[str, list[Record]] = {}
        self.files: dict[str, Slots] = {}
        self.epochs = Epochs.founded("")
        self.synced: dict[str, int] = {}
        self._synced_files: dict[str, Slots] = {}
        self._synced_epochs = self.epochs
        self._before_cut: dict[str, list[Record]] = {}
        """Logs that were cut or removed since the last `sync_all`. A power cut may bring them back whole."""

    def tails(self) -> dict[str, int]:
        return {log: len(records) for log, records in self.logs.items()}

    def sync_log(self, log: str, end: int) -> None:
        if log in self.logs:
            self.synced[log] = max(self.synced.get(log, 0), end)

    def sync_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            if path in self.files:
                self._synced_files[path] = self.files[path]
            else:
                self._synced_files.pop(path, None)

    def sync_epochs(self) -> None:
        self._synced_epochs = self.epochs

    def sync_all(self) -> None:
        self.synced = self.tails()
        self._synced_files = dict(self.files)
        self._synced_epochs = self.epochs
        self._before_cut.clear()

    def cut(self, cuts: Mapping[str, int]) -> None:
        """Cuts the logs of `cuts` there, makes the missing ones, and removes all others. Does not sync."""
        for log in [*self.logs]:
            end = cuts.get(log)
            if end is None or end < len(self.logs[log]):
                self._before_cut.setdefault(log, self.logs[log])
                if end is None:
                    del self.logs[log]
                    self.synced.pop(log, None)
                else:
                    self.logs[log] = self.logs[log][:end]
                    self.synced[log] = min(self.synced.get(log, 0), end)
        for log in cuts:
            self.logs.setdefault(log, [])

    def remove_log(self, log: str) -> None:
        records = self.logs.pop(log, None)
        self.synced.pop(log, None)
        if records is not None:
            self._before_cut.setdefault(log, records)

    def sync_removal(self, log: str) -> None:
        if log not in self.logs:
            self._before_cut.pop(log, None)

    def durable(self, path: str) -> Slots:
        return self._synced_files.get(path, EMPTY)

    def lose_power(self, random: Random) -> None:
        """Loses a random part of what was not synced, in each file independently."""
        for log, records in self.logs.items():
            del records[random.randint(self.synced.get(log, 0), len(records)) :]
        for log, before in self._before_cut.items():
            if random.random() < 0.5:
                self.logs[log] = before
        for path in sorted({*self.files, *self._synced_files}):
            old, new = self._synced_files.get(path, EMPTY), self.files.get(path, EMPTY)
            self.files[path] = (random.choice((old[0], new[0])), random.choice((old[1], new[1])))
        if random.random() < 0.5:
            self.epochs = self._synced_epochs
        self.sync_all()

    def start_from_nothing(self, incarnation: str) -> None:
        self.__init__(incarnation)  # type: ignore[misc]
