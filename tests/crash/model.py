"""What was sent to a log, and what of it a crash may take: the list that the log is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.support.compression import Compression
from warren.message import NO_HEADERS, Message

Crash = Literal["power cut", "loss", "kill"]
"""The power is cut; what was not synced is lost without a restart of the machine; or the process is killed."""


class Sent(NamedTuple):
    """A message as it was handed to the log."""

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
    """That of a second writer, open at the same time, as another process would have it."""

    @property
    def keeps_commits(self) -> bool:
        """Whether acknowledged messages survive a power cut, whichever process appended them."""
        return self.durability == "commit" and self.second_durability in (None, "commit")


@dataclass(slots=True)
class Model:
    """Messages by number. Those from `acknowledged` on are in flight: their call has not returned.

    `durable` is the end of what no power cut may take, `first` and `first_in_flight` bound the first number there.
    `positions` holds, for each reader that ever committed, the positions at which it may be found; the last commit that
    was acknowledged comes first.
    """

    setup: Setup
    messages: list[Sent] = field(default_factory=list)
    acknowledged: int = 0
    durable: int = 0
    first: int = 0
    first_in_flight: int = 0
    positions: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def begin(self, batch: Sequence[Sent]) -> None:
        """The call that appends `batch` has begun."""
        self.messages[self.acknowledged :] = batch

    def acknowledge(self, durability: str) -> None:
        """The call that began has returned. A commit promises whatever lies before it, too."""
        self.acknowledged = len(self.messages)
        if durability == "commit":
            self.durable = self.acknowledged

    def retire(self, first: int) -> None:
        """A call that retires has returned, and the log starts at `first`."""
        self.first = self.first_in_flight = first

    def commit(self, reader: str, position: int) -> None:
        """A reader's commit has returned."""
        self.positions[reader] = (position,)

    def begin_commit(self, reader: str, position: int) -> None:
        if reader in self.positions:
            self.positions[reader] += (position,)

    def settle_position(self, crash: Crash, reader: str, position: int) -> None:
        """After `crash` the reader was found at `position`: on disk, or, after a kill, perhaps still on its way."""
        if crash != "kill":
            self.commit(reader, position)
        else:
            self.positions[reader] = (self.positions[reader][0], position)

    def end_bounds(self, crash: Crash) -> tuple[int, int]:
        """The least and the greatest end that the log may have after `crash`."""
        return (self.durable if crash != "kill" else self.acknowledged), len(self.messages)

    def unchecked(self, crash: Crash) -> int:
        """The number from which on messages may come back with bytes missing after `crash`.

        Version 1 has no checksums: of what was not yet on disk when the power failed only the structure is checked.
        """
        return self.durable if crash != "kill" and self.setup.version == 1 else len(self.messages)

    def first_bounds(self, crash: Crash) -> tuple[int, int]:
        """The least and the greatest first number that the log may have after `crash`."""
        keeps = self.setup.keeps_commits or crash == "kill"
        return (self.first if keeps else 0), self.first_in_flight

    def keeps_positions(self, crash: Crash) -> bool:
        return self.setup.keeps_commits or crash == "kill"

    def settle(self, crash: Crash, found: Sequence[Message], first: int, end: int) -> None:
        """The log was opened for writing after `crash`, and is what it is from now on."""
        del self.messages[end:]
        if self.setup.version == 1:
            # Without checksums the body of a message in flight may be a mixture, but from now on it stays the same.
            self.messages[first:end] = [Sent.of(message) for message in found]
        self.acknowledged = end
        if crash != "kill" or self.setup.keeps_commits:
            self.durable = end
        self.durable = min(self.durable, end)
        self.first = self.first_in_flight = first
