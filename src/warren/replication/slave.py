"""A slave: joins the master, cuts what differs, fetches and acknowledges, and stops when the master is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from warren.replication.actions import (
    Apply,
    ClearUnreached,
    CompareState,
    CutLogs,
    KeepEpochs,
    NoteUnreached,
    Promote,
    Propose,
    ReadRegistry,
    SendJoin,
    SendRequest,
    Show,
    SlaveAction,
    StartFromNothing,
    WriteState,
)
from warren.replication.changes import CommittedEnds, Item, RemovedLog
from warren.replication.election import Election
from warren.replication.messages import (
    FetchShard,
    FetchState,
    LinkId,
    ListState,
    MasterAnswer,
    ShardFetched,
    ShardJoined,
    ShardRefused,
    StateFetched,
    StateListed,
)
from warren.replication.shard_state import ProposalOutcome, RegistryView
from warren.replication.time_limits import NEVER, TimeLimits

ROUND_SIZE_MAX: Final = 16 << 20


class Link(Enum):
    """The steps of a slave's link to its master. Their order keeps the invariant of `Slave`."""

    IDLE = auto()
    JOINING = auto()
    CUTTING = auto()
    """First the logs are cut where they begin to differ from the master's."""
    KEEPING_EPOCHS = auto()
    """Then the master's list of epochs is kept. It must be on disk before any record of one of its epochs."""
    LISTING = auto()
    COMPARING = auto()
    FETCHING_STATE = auto()
    WRITING_STATE = auto()
    """Now the state files become the master's, which undoes what a deposed master had written alone."""
    FETCHING = auto()
    APPLYING = auto()
    ABANDONING = auto()
    """The link is lost, and the disk has not finished its last step for it."""
    LEADING = auto()


class LinkEvent(Enum):
    """What happens to a link."""

    JOIN = auto()
    JOINED = auto()
    LISTED = auto()
    DIFFERENT = auto()
    EQUAL = auto()
    CONTENTS = auto()
    ROUND = auto()
    NOTHING_NEW = auto()
    DISK_DONE = auto()
    LOST = auto()
    WON = auto()


TRANSITIONS: Final[dict[tuple[Link, LinkEvent], Link]] = {
    (Link.IDLE, LinkEvent.JOIN): Link.JOINING,
    (Link.IDLE, LinkEvent.LOST): Link.IDLE,
    (Link.IDLE, LinkEvent.WON): Link.LEADING,
    (Link.JOINING, LinkEvent.JOINED): Link.CUTTING,
    (Link.JOINING, LinkEvent.LOST): Link.IDLE,
    (Link.CUTTING, LinkEvent.DISK_DONE): Link.KEEPING_EPOCHS,
    (Link.CUTTING, LinkEvent.LOST): Link.ABANDONING,
    (Link.KEEPING_EPOCHS, LinkEvent.DISK_DONE): Link.LISTING,
    (Link.KEEPING_EPOCHS, LinkEvent.LOST): Link.ABANDONING,
    (Link.LISTING, LinkEvent.LISTED): Link.COMPARING,
    (Link.LISTING, LinkEvent.LOST): Link.IDLE,
    (Link.COMPARING, LinkEvent.DIFFERENT): Link.FETCHING_STATE,
    (Link.COMPARING, LinkEvent.EQUAL): Link.FETCHING,
    (Link.COMPARING, LinkEvent.LOST): Link.IDLE,
    (Link.FETCHING_STATE, LinkEvent.CONTENTS): Link.WRITING_STATE,
    (Link.FETCHING_STATE, LinkEvent.LOST): Link.IDLE,
    (Link.WRITING_STATE, LinkEvent.DISK_DONE): Link.FETCHING,
    (Link.WRITING_STATE, LinkEvent.LOST): Link.ABANDONING,
    (Link.FETCHING, LinkEvent.ROUND): Link.APPLYING,
    (Link.FETCHING, LinkEvent.NOTHING_NEW): Link.FETCHING,
    (Link.FETCHING, LinkEvent.LOST): Link.IDLE,
    (Link.APPLYING, LinkEvent.DISK_DONE): Link.FETCHING,
    (Link.APPLYING, LinkEvent.LOST): Link.ABANDONING,
    (Link.ABANDONING, LinkEvent.DISK_DONE): Link.IDLE,
    (Link.ABANDONING, LinkEvent.LOST): Link.ABANDONING,
    (Link.LEADING, LinkEvent.LOST): Link.LEADING,
}
EXPECTED: Final[dict[Link, type]] = {
    Link.JOINING: ShardJoined,
    Link.LISTING: StateListed,
    Link.FETCHING_STATE: StateFetched,
    Link.FETCHING: ShardFetched,
}
"""The answer that a slave waits for in each step."""


class Slave:
    """One slave as a state machine: events in, actions out. One thread; `now` is its steady clock.

    Invariant: it acknowledges a barrier only after everything up to that barrier is as durable here as it has to be,
    and never while its election is under way. After they are cut, each of its logs is a beginning of the master's.
    """

    def __init__(self, election: Election, timing: TimeLimits, *, now: float, size_max: int = ROUND_SIZE_MAX) -> None:
        self._election, self._timing = election, timing
        self._size_max = size_max
        self._leader: tuple[int, str] = (-1, "")
        """The epoch and the nonce of the master that is followed."""
        self._master = -1
        self._link: LinkId | None = None
        self._link_count = 0
        self._answered = 0
        self._acked = 0
        self._round: ShardFetched | None = None
        self._joined: ShardJoined | None = None
        self._digests: dict[str, bytes] = {}
        self._paths: list[str] = []
        self._contents: dict[str, bytes | None] = {}
        self._retry_at = now
        self._answer_due = NEVER
        self._reached_at = now
        self._noted_epoch: int | None = None
        self.state = Link.IDLE
        self.committed: dict[str, int] = {}
        """Where the logs are committed, as far as the master has said so on the present link."""

    @property
    def has_caught_up(self) -> bool:
        """Whether it has everything that the master had when the present link was opened."""
        return self.state in (Link.FETCHING, Link.APPLYING) and self._acked > 0

    @property
    def deadline(self) -> float:
        """When `timer` is to be called next."""
        deadline = min(self._election.deadline, self._answer_due)
        if self._may_follow:
            if self.state is Link.IDLE:
                deadline = min(deadline, self._retry_at)
            deadline = min(deadline, self._unreached_at)
        return deadline

    def see(self, view: RegistryView, now: float) -> list[SlaveAction]:
        """Takes a new view of the registry."""
        election = self._election
        election.see(view, now)
        assert election.view is not None
        state = election.view.state
        if (state.epoch, state.nonce) != self._leader:
            self._leader, self._master = (state.epoch, state.nonce), -1 if state.master is None else state.master
            self._reached_at, self._retry_at = now, now
            self._noted_epoch = None
            self._lose(now, retry_s=0)
        return self._advance(now)

    def outcome(self, outcome: ProposalOutcome, now: float) -> list[SlaveAction]:
        """Takes the answer of the registry to the compare-and-set of the election."""
        self._election.answered(outcome)
        actions: list[SlaveAction] = [] if outcome is ProposalOutcome.DONE else [ReadRegistry()]
        return actions + self._advance(now)

    def timer(self, now: float) -> list[SlaveAction]:
        """Takes the event that `deadline` has come. Calling it earlier or later does no harm."""
        actions: list[SlaveAction] = []
        if now >= self._answer_due:
            self._lose(now, retry_s=self._timing.retry_s)
        proposal = self._election.timer(now)
        if proposal is not None:
            actions.append(Propose(proposal, needs_own_node=True))
        return actions + self._advance(now)

    def connection_lost(self, link: LinkId, now: float) -> list[SlaveAction]:
        """Takes the event that the connection to the master is closed."""
        if link == self._link:
            self._lose(now, retry_s=self._timing.retry_s)
        return self._advance(now)

    def received(self, answer: MasterAnswer, now: float) -> list[SlaveAction]:
        """Takes an answer of the master. An answer that is late or repeated, so not expected now, changes nothing."""
        if answer.link != self._link or not self._election.may_fetch:
            return []
        if isinstance(answer, ShardRefused):
            self._lose(now, retry_s=self._timing.retry_s)
            return [ReadRegistry(), *self._advance(now)]
        if type(answer) is not EXPECTED.get(self.state):
            return []
        if isinstance(answer, ShardFetched) and answer.number != self._answered + 1:
            return []
        self._answer_due = NEVER
        self._reached_at = now
        actions: list[SlaveAction] = []
        if self._noted_epoch is not None:
            self._noted_epoch = None
            actions.append(ClearUnreached())
        return actions + self._take(answer, now)

    def state_compared(self, different: Sequence[str], gone: Sequence[str], now: float) -> list[SlaveAction]:
        """Takes the state files that differ from the master's or are missing here, and those only here."""
        if self.state is not Link.COMPARING:
            return []
        if not different and not gone:
            self._go(LinkEvent.EQUAL)
            return self._fetch(now)
        self._go(LinkEvent.DIFFERENT)
        self._paths = list(different)
        self._contents = dict.fromkeys(gone)
        return self._ask(
            FetchState(identity=self._election.me, link=self._open_link, epoch=self._epoch, paths=different), now
        )

    def disk_done(self, now: float) -> list[SlaveAction]:
        """Takes the event that the last CutLogs, KeepEpochs, WriteState or Apply is done and synced."""
        finished = self.state
        self._go(LinkEvent.DISK_DONE)
        if finished is Link.CUTTING:
            assert self._joined is not None
            return [KeepEpochs(self._joined.epochs)]
        if finished is Link.KEEPING_EPOCHS:
            return self._list("", now)
        if finished is Link.WRITING_STATE:
            return self._fetch(now)
        if finished is Link.APPLYING:
            return self._acknowledge(now)
        return self._advance(now)

    @property
    def _open_link(self) -> LinkId:
        assert self._link is not None
        return self._link

    @property
    def _epoch(self) -> int:
        return self._leader[0]

    @property
    def _may_follow(self) -> bool:
        """Whether the shard has a living master, and this slave may fetch from it."""
        election = self._election
        return (
            election.view is not None
            and election.may_fetch
            and election.view.is_master_alive
            and self._master != election.me.replica
        )

    @property
    def _unreached_at(self) -> float:
        """When to write to the registry that the master is silent; never if that is done, or if not in the set."""
        view = self._election.view
        if self._noted_epoch is not None or view is None or not self._election.is_eligible(view):
            return NEVER
        return self._reached_at + self._timing.unreached_s

    def _take(self, answer: MasterAnswer, now: float) -> list[SlaveAction]:
        if isinstance(answer, ShardJoined):
            if answer.cuts is None:
                self._lose(now, retry_s=self._timing.retry_s)
                return [StartFromNothing()]
            self._joined, self._acked = answer, answer.barrier
            self._go(LinkEvent.JOINED)
            return [CutLogs(answer.cuts, answer.first)]
        if isinstance(answer, StateListed):
            self._digests |= answer.digests
            if not answer.is_complete:
                return self._list(max(answer.digests), now)
            self._go(LinkEvent.LISTED)
            return [CompareState(self._digests)]
        if isinstance(answer, StateFetched):
            self._contents |= answer.contents
            left = [path for path in self._paths if path not in self._contents]
            if left and answer.contents:
                request = FetchState(identity=self._election.me, link=self._open_link, epoch=self._epoch, paths=left)
                return self._ask(request, now)
            self._go(LinkEvent.CONTENTS)
            return [WriteState(self._contents)]
        assert isinstance(answer, ShardFetched)
        self._answered = answer.number
        self._round = answer
        self._note_committed(answer.items)
        if all(isinstance(item, CommittedEnds) for item in answer.items):
            self._go(LinkEvent.NOTHING_NEW)
            return self._acknowledge(now)
        self._go(LinkEvent.ROUND)
        return [Apply(answer.items)]

    def _note_committed(self, items: Iterable[Item]) -> None:
        for item in items:
            if isinstance(item, CommittedEnds):
                self.committed.update(item.ends)
            elif isinstance(item, RemovedLog):
                self.committed.pop(item.log, None)

    def _acknowledge(self, now: float) -> list[SlaveAction]:
        """Shows what is committed according to the round, and fetches the next round, which acknowledges this one."""
        assert self._round is not None
        self._acked = max(self._acked, self._round.barrier)
        ends = [item for item in self._round.items if isinstance(item, CommittedEnds)]
        actions: list[SlaveAction] = [Show(item.ends) for item in ends]
        return actions + self._fetch(now)

    def _list(self, after: str, now: float) -> list[SlaveAction]:
        if not after:
            self._digests = {}
        return self._ask(
            ListState(identity=self._election.me, link=self._open_link, epoch=self._epoch, after=after), now
        )

    def _fetch(self, now: float) -> list[SlaveAction]:
        self._election.fetch_sent(now)
        request = FetchShard(
            identity=self._election.me,
            link=self._open_link,
            epoch=self._epoch,
            follows=self._answered,
            acked=self._acked,
            size_max=self._size_max,
        )
        return self._ask(request, now, wait_s=self._timing.fetch_wait_s)

    def _ask(self, request: ListState | FetchState | FetchShard, now: float, wait_s: float = 0) -> list[SlaveAction]:
        self._answer_due = now + wait_s + self._timing.answer_s
        return [SendRequest(self._master, request)]

    def _lose(self, now: float, *, retry_s: float) -> None:
        """Drops the link. The disk finishes the step that it has begun, but the step is not acknowledged."""
        self._link = None
        self._answer_due = NEVER
        self._retry_at = now + retry_s
        self._go(LinkEvent.LOST)

    def _advance(self, now: float) -> list[SlaveAction]:
        """Does what an event may have made possible: stops, leads, joins, or reports that the master is silent."""
        election = self._election
        if self._link and not election.may_fetch:
            self._lose(now, retry_s=0)
        if election.won is not None:
            return self._lead()
        if not self._may_follow:
            return []
        actions: list[SlaveAction] = []
        if now >= self._unreached_at:
            self._noted_epoch = self._epoch
            actions.append(NoteUnreached(self._epoch))
        if self.state is Link.IDLE and now >= self._retry_at:
            actions += self._join(now)
        return actions

    def _join(self, now: float) -> list[SlaveAction]:
        self._go(LinkEvent.JOIN)
        self._link_count += 1
        self._link = LinkId(self._election.nonce, self._link_count)
        self._answered = self._acked = 0
        self._round = None
        self.committed = {}
        self._answer_due = now + self._timing.answer_s
        return [SendJoin(self._master, self._open_link, self._epoch)]

    def _lead(self) -> list[SlaveAction]:
        """Leads as soon as the disk has finished its last step, because only then the tails are certain."""
        if self.state is not Link.IDLE:
            return []
        self._go(LinkEvent.WON)
        assert self._election.won is not None
        return [Promote(self._election.won)]

    def _go(self, event: LinkEvent) -> None:
        self.state = TRANSITIONS[self.state, event]
