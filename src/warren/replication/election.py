"""The election: when a slave stops fetching, how long it waits, and when it asks the registry to make it master."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, RegistryView
from warren.replication.time_limits import NEVER, TimeLimits


class Candidacy(Enum):
    """The steps of a slave on its way to become master. It fetches only in FOLLOWING."""

    FOLLOWING = auto()
    WAITING_LEASE = auto()
    """The master is lost. It may still answer reads for a while, because this slave fetched a moment ago."""
    WAITING_TURN = auto()
    """Living members that the shard prefers may ask first."""
    ASKED = auto()
    """The compare-and-set was sent and has no answer yet."""
    UNSURE = auto()
    """The answer was lost. The compare-and-set may still be applied while the version is the same."""
    REFUSED = auto()
    """The state has changed. The next view says how."""
    WON = auto()


class Sign(Enum):
    """What a slave learns from its view of the registry, its clock, or the answer to its compare-and-set."""

    LOST = auto()
    """The master is gone, or all other members get no answer from it; and this replica may lead."""
    KEPT = auto()
    """There is a master to follow, or this replica may not lead."""
    SAME = auto()
    """UNSURE only: the version is still the one that the compare-and-set was for."""
    NAMED = auto()
    """The registry has this process as master: by its own compare-and-set, or because the last master handed over."""
    LEASE_OVER = auto()
    TURN_COME = auto()
    DONE = auto()
    REFUSED = auto()
    UNKNOWN = auto()


VIEWS: Final = (Sign.LOST, Sign.KEPT, Sign.NAMED)
TRANSITIONS: Final[dict[tuple[Candidacy, Sign], Candidacy]] = {
    (Candidacy.FOLLOWING, Sign.LOST): Candidacy.WAITING_LEASE,
    (Candidacy.FOLLOWING, Sign.KEPT): Candidacy.FOLLOWING,
    (Candidacy.FOLLOWING, Sign.NAMED): Candidacy.WON,
    (Candidacy.WAITING_LEASE, Sign.LOST): Candidacy.WAITING_LEASE,
    (Candidacy.WAITING_LEASE, Sign.KEPT): Candidacy.FOLLOWING,
    (Candidacy.WAITING_LEASE, Sign.NAMED): Candidacy.WON,
    (Candidacy.WAITING_LEASE, Sign.LEASE_OVER): Candidacy.WAITING_TURN,
    (Candidacy.WAITING_TURN, Sign.LOST): Candidacy.WAITING_TURN,
    (Candidacy.WAITING_TURN, Sign.KEPT): Candidacy.FOLLOWING,
    (Candidacy.WAITING_TURN, Sign.NAMED): Candidacy.WON,
    (Candidacy.WAITING_TURN, Sign.TURN_COME): Candidacy.ASKED,
    # A view that comes while the compare-and-set is under way may be older than it, and changes nothing.
    (Candidacy.ASKED, Sign.LOST): Candidacy.ASKED,
    (Candidacy.ASKED, Sign.KEPT): Candidacy.ASKED,
    (Candidacy.ASKED, Sign.NAMED): Candidacy.WON,
    (Candidacy.ASKED, Sign.DONE): Candidacy.WON,
    (Candidacy.ASKED, Sign.REFUSED): Candidacy.REFUSED,
    (Candidacy.ASKED, Sign.UNKNOWN): Candidacy.UNSURE,
    # At the same version it must not fetch again, even if the master lives: the compare-and-set may still be applied.
    # So it asks once more. If one of the two is applied, the version rises, and the other can no longer be applied.
    (Candidacy.UNSURE, Sign.SAME): Candidacy.WAITING_TURN,
    (Candidacy.UNSURE, Sign.LOST): Candidacy.WAITING_LEASE,
    (Candidacy.UNSURE, Sign.KEPT): Candidacy.FOLLOWING,
    (Candidacy.UNSURE, Sign.NAMED): Candidacy.WON,
    (Candidacy.REFUSED, Sign.LOST): Candidacy.WAITING_LEASE,
    (Candidacy.REFUSED, Sign.KEPT): Candidacy.FOLLOWING,
    (Candidacy.REFUSED, Sign.NAMED): Candidacy.WON,
    **{(Candidacy.WON, sign): Candidacy.WON for sign in (*VIEWS, Sign.DONE, Sign.REFUSED, Sign.UNKNOWN)},
}


class Election:
    """One slave's part in the elections of its shard. One thread; times are those of its steady clock.

    A replica asks only if the set has it with this disk, and also with this boot if its store may lose something at a
    power cut. It stops fetching before it reads the version that it asks for. So it has every barrier that the old
    master finished, and the old master finishes none afterwards.
    """

    def __init__(
        self,
        me: Identity,
        nonce: str,
        timing: TimeLimits,
        preference: Sequence[int],
        min_insync: int,
        *,
        is_power_safe: bool,
        now: float,
    ) -> None:
        self.me, self.nonce = me, nonce
        self._timing = timing
        self._preference = preference
        self._min_insync = min_insync
        self._is_power_safe = is_power_safe
        self._fetch_sent = now
        """An earlier process of this replica may have fetched until this one began."""
        self._proposal: Proposal | None = None
        self._deadline = NEVER
        self.view: RegistryView | None = None
        self.won: Proposal | None = None
        """The state in which this process is master, and its version."""
        self.candidacy = Candidacy.FOLLOWING

    @property
    def may_fetch(self) -> bool:
        """Whether this slave may fetch. A fetch lengthens the lease of the master and acknowledges barriers."""
        return self.candidacy is Candidacy.FOLLOWING

    @property
    def deadline(self) -> float:
        """When `timer` is to be called next."""
        return self._deadline

    def fetch_sent(self, now: float) -> None:
        """Notes that a fetch is about to be sent."""
        self._fetch_sent = now

    def see(self, view: RegistryView, now: float) -> None:
        """Takes a new view of the registry. A view that is older than the last one changes nothing."""
        if self.view is not None and view.version < self.view.version:
            return
        is_new = self.view is None or view.version > self.view.version
        before = self.candidacy
        self.view = view
        self._go(self._sign(view))
        if self.candidacy is Candidacy.WAITING_LEASE:
            self._deadline = self._lease_over_at(view)
        elif self.candidacy is Candidacy.WAITING_TURN and (is_new or before is not self.candidacy):
            self._deadline = now + self._delay(view)

    def timer(self, now: float) -> Proposal | None:
        """Takes the next step if the deadline has passed. Returns the compare-and-set to ask for; None if not yet."""
        view = self.view
        if now < self._deadline or view is None:
            return None
        if self.candidacy is Candidacy.WAITING_LEASE:
            self._go(Sign.LEASE_OVER)
            self._deadline = now + self._delay(view)
        if self.candidacy is Candidacy.WAITING_TURN and now >= self._deadline:
            self._go(Sign.TURN_COME)
            self._proposal = Proposal(view.state.led_by(self.me, self.nonce), view.version)
            return self._proposal
        return None

    def answered(self, outcome: ProposalOutcome) -> None:
        """Takes the outcome of the compare-and-set. If it is not DONE, the registry has to be read again."""
        self._go(Sign[outcome.name])
        if outcome is ProposalOutcome.DONE and self.won is None:
            assert self._proposal is not None
            self.won = Proposal(self._proposal.state, self._proposal.version + 1)

    def is_eligible(self, view: RegistryView) -> bool:
        """Whether the set has this replica with this disk, and with this boot unless a power cut loses nothing."""
        member = view.state.identity_of(self.me.replica)
        if member is None or member.incarnation != self.me.incarnation:
            return False
        return member.boot == self.me.boot or self._is_power_safe

    def is_master_lost(self, view: RegistryView) -> bool:
        """Whether the members of the set should elect another master."""
        return not view.is_master_alive or view.is_master_unreached(self._min_insync)

    def _sign(self, view: RegistryView) -> Sign:
        state = view.state
        if state.master == self.me.replica and state.nonce == self.nonce and self.me in state.insync:
            self.won = self.won or Proposal(state, view.version)
            return Sign.NAMED
        if self.candidacy is Candidacy.UNSURE and self._proposal and view.version <= self._proposal.version:
            return Sign.SAME
        return Sign.LOST if self.is_master_lost(view) and self.is_eligible(view) else Sign.KEPT

    def _lease_over_at(self, view: RegistryView) -> float:
        state = view.state
        is_dead = state.master in (None, self.me.replica) or view.dead == state.epoch
        return 0.0 if is_dead else self._fetch_sent + self._timing.lease_s

    def _delay(self, view: RegistryView) -> float:
        """Returns how long to wait for the living members that the shard prefers to this one."""
        state = view.state
        before = self._preference[: self._preference.index(self.me.replica)]
        candidates = [
            replica
            for replica in before
            if replica in view.nodes
            and state.identity_of(replica) is not None
            and not (replica == state.master and view.is_master_alive)
        ]
        return len(candidates) * self._timing.turn_s

    def _go(self, sign: Sign) -> None:
        self.candidacy = TRANSITIONS[self.candidacy, sign]
        if self.candidacy not in (Candidacy.WAITING_LEASE, Candidacy.WAITING_TURN):
            self._deadline = NEVER
