"""The messages that were sent to a log, and which of them a crash may lose: the list that the log is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.support.compression import Compression
from warren.message import NO_HEADERS, Message
from warren.storage.append.durability import Replication

Crash = Literal["power cut", "loss", "kill"]
"""The power is cut; unsynced data is lost without a restart of the machine; or the process is killed."""


class Sent(NamedTuple):
    """A message as it was passed to the log."""

    body: bytes
    tag: str = ""
    key: bytes | None = None
    headers: Mapping[str, bytes] = NO_HEADERS
    id: str = ""

    @classmethod
    def of(cls, message: Message) -> Sent:
        return cls(message.body, message.tag, message.key, dict(message.headers), message.id)

    def matches(self, message: Message) -> bool:
        return self == Sent.of(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a log is opened in one run."""

    version: int = 2
    durability: str = "commit"
    compression: Compression = "none"
    block_size: int = 4 << 10
    max_block_count: int = 4
    exclusive: bool = False
    second_durability: str | None = None
    """The durability of a second writer, open at the same time, as another process would have it."""
    replication: Replication = "as synced"
    """What waits for the second disk, if there is one."""

    @property
    def keeps_commits(self) -> bool:
        """Returns whether acknowledged messages survive a power cut, for appends of any process."""
        return self.durability == "commit" and self.second_durability in (None, "commit")


@dataclass(slots=True)
class Model:
    """Messages by number. Those from `acknowledged` on are in flight: their call has not returned.

    `durable` is the end that no power cut may go below; `first` and `first_in_flight` bound the first existing number.
    `positions` holds, for each reader that ever committed, the positions that it may have; the last acknowledged commit
    comes first.
    """

    setup: Setup
    messages: list[Sent] = field(default_factory=list)
    acknowledged: int = 0
    durable: int = 0
    first: int = 0
    first_in_flight: int = 0
    positions: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def begin(self, batch: Sequence[Sent]) -> None:
        """Records that the call that appends `batch` has begun."""
        self.messages[self.acknowledged :] = batch

    def acknowledge(self, durability: str) -> None:
        """Records that the call has returned. A commit also makes everything before it durable."""
        self.acknowledged = len(self.messages)
        if durability == "commit":
            self.durable = self.acknowledged

    def retire(self, first: int) -> None:
        """Records that a call that retires has returned, and the log starts at `first`."""
        self.first = self.first_in_flight = first

    def commit(self, reader: str, position: int) -> None:
        """Records that a reader's commit has returned."""
        self.positions[reader] = (position,)

    def begin_commit(self, reader: str, position: int) -> None:
        if reader in self.positions:
            self.positions[reader] += (position,)

    def settle_position(self, crash: Crash, reader: str, position: int) -> None:
        """Records that after `crash` the reader was at `position`: on disk, or, after a kill, perhaps not yet."""
        if crash != "kill":
            self.commit(reader, position)
        else:
            self.positions[reader] = (self.positions[reader][0], position)

    def end_bounds(self, crash: Crash) -> tuple[int, int]:
        """Returns the least and the greatest end that the log may have after `crash`."""
        return (self.durable if crash != "kill" else self.acknowledged), len(self.messages)

    def unchecked(self, crash: Crash) -> int:
        """Returns the number from which on messages may have missing bytes after `crash`.

        Version 1 has no checksums: of messages that were not on disk when the power failed, only the structure is
        checked.
        """
        return self.durable if crash != "kill" and self.setup.version == 1 else len(self.messages)

    def first_bounds(self, crash: Crash) -> tuple[int, int]:
        """Returns the least and the greatest first number that the log may have after `crash`."""
        keeps = self.setup.keeps_commits or crash == "kill"
        return (self.first if keeps else 0), self.first_in_flight

    def keeps_positions(self, crash: Crash) -> bool:
        return self.setup.keeps_commits or crash == "kill"

    def settle(self, crash: Crash, messages: Sequence[Message], first: int, end: int) -> None:
        """Records the state of the log when it was opened for writing after `crash`; from now on it is exact."""
        del self.messages[end:]
        if self.setup.version == 1:
            # Without checksums the body of a message in flight may be a mixture, but from now on it does not change.
            self.messages[first:end] = [Sent.of(message) for message in messages]
        self.acknowledged = end
        if crash != "kill" or self.setup.keeps_commits:
            self.durable = end
        self.durable = min(self.durable, end)
        self.first = self.first_in_flight = first
