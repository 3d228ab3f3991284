"""What the journal knows of a transaction that has not ended: enough for any process to finish it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from warren.transaction.states import State

MARKER_START: Final = b"transaction "


def marker_of(token: str, target: int, piece: int) -> bytes:
    """What the records of one piece of one target carry, in the journal and in their log, and nothing else ever does.

    `token` is that of the transaction.
    """
    return MARKER_START + f"{token} {target} {piece}".encode()


class Place(NamedTuple):
    """One log that a transaction puts to: a partition of a topic, or what is parked for it with a horizon."""

    topic: str
    partition: int
    horizon: str | None = None


class Piece(NamedTuple):
    """Rows in the journal that are appended to their target together.

    Packed ones lie there as the records that their target takes, marker and all; others as rows.
    """

    first: int
    row_count: int
    is_packed: bool = False


@dataclass(slots=True)
class Target:
    """What goes to one log. `since` is an end of that log from before the first try to append it."""

    place: Place
    pieces: list[Piece] = field(default_factory=list)
    since: int = 0

    def to_json(self) -> list[Any]:
        return [*self.place, self.since, self.pieces]

    @classmethod
    def from_json(cls, data: list[Any]) -> Self:
        topic, partition, horizon, since, pieces = data
        return cls(Place(topic, partition, horizon), [Piece(*piece) for piece in pieces], since)


class GroupName(NamedTuple):
    """A group, and its topic."""

    topic: str
    group: str


@dataclass(slots=True, kw_only=True)
class Entry:
    """A transaction as all processes see it. `token` is of this transaction alone, also where its id comes back.

    `session` is who is at work on it: while it is open its owner, once it is committed whoever committed it.
    `first` is the number of the first row in the journal, `deadline` when it is aborted although it was prepared
    (in µs, 0 for never). `positions` are those of stream groups, `acks` how many messages of queue groups are
    acknowledged. `back` has the position that was committed when it was decided, of each that goes back.
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
        """What the records of one piece of one target carry."""
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
