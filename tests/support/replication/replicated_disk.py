"""A simulated disk with a slave on a second one: when the first is gone, tests continue with the second.

It has the methods of `SimulatedFileSystem`, so that crash tests run on it without a change. Its programs write through
a `ReplicatedFileSystem`. Its slave applies what is shipped either immediately or, with `is_lazy`, only when a caller
waits for a barrier. If the second disk then has less than what was answered, an answer did not wait for its barrier.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.replication.replica_pair import ReplicaPair
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import MAP_CAPACITY_DEFAULT, FrozenDisk, SimulatedFileSystem
from warren.storage.disk.filesystem import File, Lock
from warren.storage.disk.shipping import Shipping

BOOTS_OF_ANOTHER_MACHINE = 1000


class FrozenPair:
    """A copy of both disks at one moment."""

    def __init__(self, first: FrozenDisk, second: FrozenDisk, disk: ReplicatedDisk) -> None:
        self.first, self.second, self._disk = first, second, disk

    def after_power_cut(self, seed: int, *, same_boot: bool = False) -> ReplicatedDisk:
        """Drops the first disk. With every third seed, the second machine also loses its power."""
        del same_boot
        if seed % 3:
            return self.after_process_kill(seed)
        return self._disk.continued(self.second.after_power_cut(seed), seed)

    def after_process_kill(self, seed: int = 0) -> ReplicatedDisk:
        """Drops the first disk. The second machine continues."""
        return self._disk.continued(self.second.after_process_kill(seed), seed)


class ReplicatedDisk:
    """The disk of a master with one slave. Every crash is a fail-over."""

    is_read_only = False
    root = "/"

    def __init__(
        self,
        *,
        seed: int = 0,
        map_capacity: int = MAP_CAPACITY_DEFAULT,
        size_max: int | None = None,
        first: SimulatedFileSystem | None = None,
        epoch: int = 1,
    ) -> None:
        self.first = first or SimulatedFileSystem(seed=seed, map_capacity=map_capacity, size_max=size_max)
        self.second = SimulatedFileSystem(seed=seed + 1, map_capacity=map_capacity)
        self.second._boots = self.first._boots + BOOTS_OF_ANOTHER_MACHINE
        self._map_capacity, self._epoch = map_capacity, epoch
        self.pair = ReplicaPair(
            self.root,
            self.root,
            epoch=epoch,
            filesystem=self.first,
            second=self.second,
            clock=SimulatedClock(),
            is_lazy=Random(seed).random() < 0.7,
        )
        self._filesystem = self.pair.filesystem
        self.pair.master.serve()

    def continued(self, disk: SimulatedFileSystem, seed: int) -> ReplicatedDisk:
        """Makes the second disk the first one of the next epoch."""
        return type(self)(seed=seed, map_capacity=self._map_capacity, first=disk, epoch=self._epoch + 1)

    # What a test does to the disk.

    def freeze(self) -> FrozenPair:
        return FrozenPair(self.first.freeze(), self.second.freeze(), self)

    def cut(self, earlier: FrozenPair | None = None) -> None:
        self.first.cut(None if earlier is None else earlier.first)

    def after_power_cut(self, seed: int, *, same_boot: bool = False) -> ReplicatedDisk:
        return self.freeze().after_power_cut(seed, same_boot=same_boot)

    def after_process_kill(self, seed: int = 0) -> ReplicatedDisk:
        return self.freeze().after_process_kill(seed)

    @property
    def cut_at_call(self) -> int | None:
        return self.first.cut_at_call

    @cut_at_call.setter
    def cut_at_call(self, call: int | None) -> None:
        self.first.cut_at_call = call

    def __getattr__(self, name: str) -> Any:
        """Returns all other attributes from the first disk."""
        return getattr(self.first, name)

    # The contract of FileSystem.

    @property
    def shipping(self) -> Shipping | None:
        return self._filesystem.shipping

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        return self._filesystem.open(path, writable=writable, create=create)

    def lock(self, path: str) -> Lock:
        return self._filesystem.lock(path)

    def exists(self, path: str) -> bool:
        return self._filesystem.exists(path)

    def names(self, directory: str) -> list[str]:
        return self._filesystem.names(directory)

    def make_directory(self, path: str, *, is_private: bool = False) -> None:
        self._filesystem.make_directory(path, is_private=is_private)

    def remove(self, path: str) -> None:
        self._filesystem.remove(path)

    def remove_directory(self, path: str) -> None:
        self._filesystem.remove_directory(path)

    def replace(self, source: str, target: str) -> None:
        self._filesystem.replace(source, target)

    def sync_directory(self, path: str) -> None:
        self._filesystem.sync_directory(path)

    def boot_id(self) -> bytes:
        return self._filesystem.boot_id()


class ReplicatedStoreDisk(ReplicatedDisk):
    """A replicated disk for tests whose store is `/store`."""

    root = "/store"


class ReplicatedDataDisk(ReplicatedDisk):
    """A replicated disk for tests whose store is `/data`."""

    root = "/data"
