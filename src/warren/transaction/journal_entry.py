"""The journal's entry for a transaction that has not ended. It is enough for any process to finish the transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from warren.transaction.states import State

MARKER_START: Final = b"transaction "


def marker_of(token: str, target: int, piece: int) -> bytes:
    """Returns the marker of the records of one piece of one target, in the journal and in their log. It is unique.

    `token` is that of the transaction.
    """
    return MARKER_START + f"{token} {target} {piece}".encode()


class LogName(NamedTuple):
    """One log that a transaction puts to: a partition of a topic, or the parked log of a horizon."""

    topic: str
    partition: int
    horizon: str | None = None


class Piece(NamedTuple):
    """Rows in the journal that are appended to their target together.

    Packed rows are stored as records with the marker of the piece. Other rows, which earlier releases wrote for logs
    that keep no markers, have none.
    """

    first: int
    row_count: int
    is_packed: bool = False


@dataclass(slots=True)
class Target:
    """The messages that go to one log. `since` is an end of that log from before the first attempt to append."""

    place: LogName
    pieces: list[Piece] = field(default_factory=list)
    since: int = 0

    def to_json(self) -> list[Any]:
        return [*self.place, self.since, self.pieces]

    @classmethod
    def from_json(cls, data: list[Any]) -> Self:
        topic, partition, horizon, since, pieces = data
        return cls(LogName(topic, partition, horizon), [Piece(*piece) for piece in pieces], since)


class GroupName(NamedTuple):
    """A group, and its topic."""

    topic: str
    group: str


@dataclass(slots=True, kw_only=True)
class JournalEntry:
    """A transaction as all processes see it. `token` is unique, even if the id is used again.

    `session` works on it: the owner while it is open, and the session that committed it afterwards. `first` is the
    number of the first row in the journal. `deadline` is when a prepared transaction is aborted (in µs, 0 for never).
    `positions` are those of stream groups; `acks` holds the numbers of the messages of queue groups to acknowledge.
    `back` holds the committed position, at the time of the decision, of each position that moves back.
    """

    id: str
    state: State
    session: str
    token: str
    when: int
    first: int
    deadline: int = 0
    targets: list[Target] = field(default_factory=list)
    positions: dict[GroupName, dict[int, int]] = field(default_factory=dict)
    acks: dict[GroupName, int] = field(default_factory=dict)
    back: dict[GroupName, dict[int, int]] = field(default_factory=dict)

    @property
    def message_count(self) -> int:
        return sum(piece.row_count for target in self.targets for piece in target.pieces)

    def marker(self, target: int, piece: int) -> bytes:
        """Returns the marker of the records of one piece of one target."""
        return marker_of(self.token, target, piece)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state,
            "session": self.session,
            "token": self.token,
            "when": self.when,
            "first": self.first,
            "deadline": self.deadline,
            "targets": [target.to_json() for target in self.targets],
            "positions": [[*name, list(positions.items())] for name, positions in self.positions.items()],
            "acks": [[*name, count] for name, count in self.acks.items()],
            "back": [[*name, list(positions.items())] for name, positions in self.back.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            id=data["id"],
            state=State(data["state"]),
            session=data["session"],
            token=data["token"],
            when=data["when"],
            first=data["first"],
            deadline=data["deadline"],
            targets=[Target.from_json(target) for target in data["targets"]],
            positions={GroupName(topic, group): dict(pairs) for topic, group, pairs in data["positions"]},
            acks={GroupName(topic, group): count for topic, group, count in data["acks"]},
            back={GroupName(topic, group): dict(pairs) for topic, group, pairs in data.get("back", ())},
        )
