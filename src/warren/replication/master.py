"""The master of one epoch: answers the slaves' requests, keeps the in-sync set, and ends when another one leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from warren.errors import Deposed
from warren.replication.actions import (
    EndProcess,
    KeepEpochs,
    LiftVisible,
    MasterAction,
    OpenStore,
    Propose,
    ReadRegistry,
    SendAnswer,
    SendContents,
    SendDigests,
    SendRanges,
    Serve,
)
from warren.replication.barrier import Barriers
from warren.replication.changes import CommittedEnds, FileContent, Item
from warren.replication.epochs import EPOCHS_PATH, Epoch, Epochs, cuts
from warren.replication.insync import InSync
from warren.replication.lease import ReadLease
from warren.replication.mastership import (
    HAND_OVER,
    PROMOTION,
    HandOver,
    HandOverEvent,
    Promotion,
    PromotionEvent,
)
from warren.replication.messages import (
    FetchShard,
    FetchState,
    JoinShard,
    LinkId,
    ListState,
    Refusal,
    ShardFetched,
    ShardJoined,
    ShardRefused,
    SlaveRequest,
)
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, RegistryView
from warren.replication.time_limits import NEVER, TimeLimits

CHECKS_PER_LAG: Final = 4
"""How often within `lag_s` a master checks for members that lag."""


class _Link:
    """The connection of one slave: what was sent on it, and whether a fetch waits for its answer."""

    __slots__ = (
        "due",
        "fetched_at",
        "identity",
        "is_open",
        "is_refused",
        "link",
        "moves_sent",
        "number",
        "parked_until",
        "ranges",
        "size_max",
        "start",
    )

    def __init__(self, request: JoinShard, start: int, ranges: list[tuple[str, int, int]], now: float) -> None:
        self.identity, self.link = request.identity, request.link
        self.start = start
        """The barrier that the slave has reached when it has all of `ranges`."""
        self.ranges = ranges
        """Old records that the slave needs first: log, first number, end."""
        self.number = 0
        self.is_open = self.is_refused = False
        self.size_max = 0
        self.fetched_at = now
        self.parked_until = self.due = NEVER
        self.moves_sent = -1
        """The count of moves of committed ends that the slave knows. None yet."""


class Master:
    """One mastership as a state machine: events in, actions out. One thread, except for `barriers`.

    `now` is the replica's steady clock, read after the event came. Any thread may give changes of the store to
    `barriers`; `wake` is called afterwards. The caller carries out the actions that a method returns, in their order.
    """

    def __init__(
        self,
        me: Identity,
        won: Proposal,
        epochs: Epochs,
        tails: Mapping[str, int],
        first: Mapping[str, int],
        visible: Mapping[str, int],
        replicas: Sequence[int],
        min_insync: int,
        timing: TimeLimits,
        *,
        began: str,
        now: float,
    ) -> None:
        state = won.state
        self.me, self.epoch, self._nonce = me, state.epoch, state.nonce
        self._timing = timing
        self._replicas = replicas
        self._min_insync = min_insync
        self._began_at = now
        self._check_at = now
        self._nodes: Mapping[int, str] | None = None
        self._links: dict[int, _Link] = {}
        self._link_numbers: dict[str, int] = {}
        """The last link of each process that has joined."""
        self._early: list[JoinShard] = []
        """Slaves that asked to join before the list of epochs was on disk."""
        self._is_first_done = False
        self._successor: Identity | None = None
        self._successor_nonce = ""
        self._hand_over_until = NEVER
        self.promotion = Promotion.KEEPING_EPOCHS
        self.hand_over = HandOver.NOT_WANTED
        entry = Epoch(epoch=state.epoch, master=me.replica, began=began, tails=dict(tails))
        self.epochs = epochs.begun(entry)
        self.insync = InSync(state, won.version, me, min_insync)
        self.barriers = Barriers(lambda: self.insync.others(), tails, first, visible)
        self.lease = ReadLease(timing, lambda: self.insync.others())

    def start(self, now: float) -> list[MasterAction]:
        """Begins the promotion. The entry of the epoch is barrier 1, and on disk before anything else is written."""
        number = self.barriers.next(FileContent(EPOCHS_PATH, self.epochs.to_json()), now)
        self.barriers.when(number, self._first_done)
        return [KeepEpochs(self.epochs)]

    def epochs_kept(self, now: float) -> list[MasterAction]:
        """Takes the event that the list of epochs is synced here. Slaves may join, and the store may be opened."""
        self._promote(PromotionEvent.EPOCHS_KEPT)
        self.barriers.synced(1)
        actions: list[MasterAction] = [OpenStore(), ReadRegistry()]
        for request in self._early:
            actions += self.received(request, now)
        self._early.clear()
        return actions + self._advance(now)

    def store_opened(self, now: float) -> list[MasterAction]:
        """Takes the event that the store is open here: the journal is replayed, decided transactions are finished."""
        self._promote(PromotionEvent.STORE_OPENED)
        actions: list[MasterAction] = [Serve()] if self.promotion is Promotion.SERVING else []
        return actions + self._advance(now)

    def change_settings(self, replicas: Sequence[int], min_insync: int) -> None:
        """Takes the settings of the shard as the registry has them now. A member that is removed leaves the set."""
        self._replicas, self._min_insync = replicas, min_insync
        self.insync.min_insync = min_insync

    def takes_puts(self, now: float) -> bool:
        """Whether puts are accepted. If not, the client looks for another master or tries again later."""
        return (
            self.promotion is Promotion.SERVING
            and self.hand_over is HandOver.NOT_WANTED
            and not self.is_short_of_replicas(now)
        )

    def is_short_of_replicas(self, now: float) -> bool:
        """Whether puts are refused, because a member is silent and the set has no member to spare."""
        if len(self.insync.members) != self._min_insync:
            # A shard that was founded with one store begins below the minimum: its slaves have to fetch it first.
            return len(self.insync.members) < self._min_insync
        since = [self.barriers.unacked_since(member) for member in self.insync.members if member != self.me]
        return any(at is not None and now - at > self._timing.refuse_s for at in since)

    def silent_s(self, replica: int, now: float) -> float | None:
        """Returns for how long a slave has sent no fetch; None if it has not joined this master."""
        link = self._links.get(replica)
        return None if link is None else now - link.fetched_at

    def may_tell_ends(self, now: float) -> bool:
        """Whether ends, and answers that there is nothing more, may be given now. Committed messages always may."""
        return (
            self.promotion is Promotion.SERVING and self.hand_over is not HandOver.PROPOSED and self.lease.is_held(now)
        )

    def wake(self, now: float) -> list[MasterAction]:
        """Takes the event that changes were given to `barriers` or synced: fetches that wait may have an answer."""
        return self._advance(now)

    def received(self, request: SlaveRequest, now: float) -> list[MasterAction]:
        """Takes a request of a slave."""
        if request.epoch > self.epoch:
            return [EndProcess(f"replica {request.identity.replica} knows epoch {request.epoch}")]
        if request.epoch < self.epoch:
            return [self._refuse(request, Refusal.NOT_MASTER)]
        if isinstance(request, JoinShard):
            return self._join(request, now)
        link = self._links.get(request.identity.replica)
        if link is None or link.link != request.link or link.is_refused:
            return [self._refuse(request, Refusal.JOIN_AGAIN)]
        if isinstance(request, FetchShard):
            return self._fetch(link, request, now)
        if isinstance(request, ListState):
            return [SendDigests(link.identity.replica, link.link, request.after)]
        assert isinstance(request, FetchState)
        return [SendContents(link.identity.replica, link.link, request.paths)]

    def ranges_left(self, replica: int, ranges: Sequence[tuple[str, int, int]]) -> None:
        """Takes the ranges that did not fit into the answer that SendRanges asked for."""
        link = self._links.get(replica)
        if link is not None:
            link.ranges = list(ranges)

    def connection_lost(self, replica: int, link: LinkId) -> None:
        """Takes the event that the connection of a slave is closed. The slave stays in the set until it lags."""
        slave = self._links.get(replica)
        if slave is not None and slave.link == link:
            slave.is_open, slave.is_refused = False, True

    def see(self, view: RegistryView, now: float) -> list[MasterAction]:
        """Takes a new view of the registry."""
        try:
            self.insync.settled(view.state, view.version)
        except Deposed as error:
            self.barriers.end(error)
            return [EndProcess(str(error))]
        if view.nodes.get(self.me.replica) != self._nonce:
            return [EndProcess("its session with the registry has expired")]
        if view.is_master_unreached(self._min_insync) and not self._is_fetched_from(now):
            return [EndProcess("no member of the in-sync set gets an answer from it")]
        self._nodes = view.nodes
        self.barriers.recount()
        return self._advance(now, checks=True)

    def outcome(self, outcome: ProposalOutcome, now: float) -> list[MasterAction]:
        """Takes the answer of the registry to a proposal."""
        if self.hand_over is HandOver.PROPOSED:
            self.hand_over = HAND_OVER[self.hand_over, HandOverEvent.ANSWERED]
            return [EndProcess("it has handed over")]
        must_read = self.insync.answered(outcome)
        self.barriers.recount()
        actions: list[MasterAction] = [ReadRegistry()] if must_read else []
        return actions + self._advance(now, checks=True)

    def hand_over_to(self, replica: int, now: float) -> bool:
        """Begins to hand over to a member of the set. Returns False if this is not possible now.

        It is possible if this master serves and the member has joined it. If the barriers are not done within `lag_s`,
        this master remains master.
        """
        link = self._links.get(replica)
        if self.promotion is not Promotion.SERVING or link is None or link.identity not in self.insync.members:
            return False
        self.hand_over = HAND_OVER[self.hand_over, HandOverEvent.WANTED]
        # Names the process that has joined with this identity. A later process of the replica may have another disk.
        self._successor, self._successor_nonce = link.identity, link.link.nonce
        self._hand_over_until = now + self._timing.lag_s
        return True

    def timer(self, now: float) -> list[MasterAction]:
        """Takes the event that `deadline` has come. Calling it earlier or later does no harm."""
        if self.hand_over is HandOver.DRAINING and now >= self._hand_over_until:
            self.hand_over = HAND_OVER[self.hand_over, HandOverEvent.TIMED_OUT]
        return self._advance(now, checks=now >= self._check_at)

    def deadline(self) -> float:
        """Returns when `timer` is to be called next."""
        deadline = self._check_at
        for link in self._links.values():
            if link.is_open:
                deadline = min(deadline, link.parked_until, link.due)
        return deadline

    def _first_done(self) -> None:
        self._is_first_done = True

    def _promote(self, event: PromotionEvent) -> None:
        self.promotion = PROMOTION[self.promotion, event]

    def _refuse(self, request: SlaveRequest, reason: Refusal) -> SendAnswer:
        return SendAnswer(request.identity.replica, ShardRefused(epoch=self.epoch, link=request.link, reason=reason))

    def _join(self, request: JoinShard, now: float) -> list[MasterAction]:
        if self.promotion is Promotion.KEEPING_EPOCHS:
            self._early.append(request)
            return []
        if self._link_numbers.get(request.link.nonce, 0) >= request.link.number:
            # The network has repeated the request. No fetch follows a second answer: the lease must not count from it.
            return []
        self._link_numbers[request.link.nonce] = request.link.number
        identity = request.identity
        last, tails, first = self.barriers.position()
        agreed = cuts(request.epochs, self.epochs, request.tails, tails)
        ranges: list[tuple[str, int, int]] = []
        if agreed is not None:
            agreed = {log: agreed.get(log, 0) for log in tails}
            # A slave whose log ends before the master's begins gets the log from there on.
            starts = {log: max(end, first.get(log, 0)) for log, end in agreed.items()}
            # Even if all messages of a log are retired, the slave needs the block that will hold the next one.
            ranges = [(log, start, tails[log]) for log, start in starts.items() if agreed[log] < tails[log]]
            self._links[identity.replica] = _Link(request, last, ranges, now)
            self.barriers.start(identity, last)
            self.lease.answered(identity, now)
        joined = ShardJoined(
            epoch=self.epoch,
            link=request.link,
            epochs=self.epochs,
            first=first,
            cuts=agreed,
            barrier=0 if agreed is None or ranges else last,
        )
        return [SendAnswer(identity.replica, joined)]

    def _fetch(self, link: _Link, request: FetchShard, now: float) -> list[MasterAction]:
        if request.follows != link.number or link.is_open:
            # The network has repeated the request. The fetch that it repeats has its answer or will get it.
            return []
        link.is_open = True
        link.size_max = request.size_max
        link.fetched_at = now
        link.parked_until = now + self._timing.fetch_wait_s
        link.due = NEVER
        self.lease.fetched(link.identity)
        if request.acked:
            self.barriers.acked(link.identity, min(request.acked, self.barriers.last))
        self._welcome(link)
        return self._advance(now)

    def _welcome(self, link: _Link) -> None:
        """Begins to count a slave that has almost caught up, so that it can come into the set."""
        identity, insync = link.identity, self.insync
        is_outside = identity.replica in self._replicas and identity not in insync.members
        is_near = not link.ranges and self.barriers.acked_by(identity) > 0 and self.barriers.is_near(identity)
        if is_outside and is_near and identity not in insync.welcomed:
            insync.welcome(identity, self.barriers.last)

    def _advance(self, now: float, *, checks: bool = False) -> list[MasterAction]:
        """Does what an event may have made possible: steps of the promotion, proposals, and answers to fetches."""
        actions: list[MasterAction] = []
        if self._is_first_done and self.promotion in (Promotion.OPENING, Promotion.OPENED):
            is_open = self.promotion is Promotion.OPENED
            self._promote(PromotionEvent.FIRST_BARRIER_DONE)
            self.barriers.commit(self.epochs.entries[-1].tails)
            actions.append(LiftVisible(self.barriers.ends()))
            actions += [Serve()] if is_open else []
        if checks:
            self._check_at = now + self._timing.lag_s / CHECKS_PER_LAG
        if self.hand_over is HandOver.NOT_WANTED:
            actions += self._propose(now, checks=checks)
        elif self.hand_over is HandOver.DRAINING:
            actions += self._drain()
        for link in self._links.values():
            if link.is_open:
                actions += self._answer(link, now)
        return actions

    def _propose(self, now: float, *, checks: bool) -> Iterator[MasterAction]:
        """Proposes another set if members lag or their processes are gone, or if slaves have reached their mark."""
        insync = self.insync
        if not insync.may_propose:
            return
        welcomed = insync.welcomed
        if not checks and not welcomed and insync.is_settled:
            return
        out = self._out(now) if checks else []
        for identity in welcomed:
            if checks and self._is_lagging(identity, now):
                insync.dismiss(identity)
                self.barriers.recount()
                self._links[identity.replica].is_refused = True
        acked = {identity: self.barriers.acked_by(identity) for identity in welcomed}
        wished = insync.wish(out, acked)
        if wished is None and not insync.is_settled:
            # A proposal whose answer was lost may still be applied. A new change, even to the same set, prevents that.
            wished = insync.members
        proposal = insync.propose(wished) if wished is not None else None
        if proposal is not None:
            yield Propose(proposal, needs_own_node=False)

    def _out(self, now: float) -> list[Identity]:
        """Returns the members that should leave the set, in order.

        First those that are no longer replicas of the shard or have no process, then those that lag, the longest first.
        """
        nodes = self._nodes
        members = self.insync.members - {self.me}
        gone = [
            member
            for member in members
            if member.replica not in self._replicas or (nodes is not None and member.replica not in nodes)
        ]
        silent = [member for member in members if member not in gone and self._is_lagging(member, now)]
        return sorted(gone) + sorted(silent, key=lambda member: (self._heard_at(member), member))

    def _is_lagging(self, member: Identity, now: float) -> bool:
        since = self.barriers.unacked_since(member)
        heard_at = self._heard_at(member)
        return min(heard_at, max(since, self._began_at) if since is not None else heard_at) < now - self._timing.lag_s

    def _heard_at(self, member: Identity) -> float:
        link = self._links.get(member.replica)
        return link.fetched_at if link is not None and link.identity == member else self._began_at

    def _is_fetched_from(self, now: float) -> bool:
        return any(now - link.fetched_at < self._timing.lag_s for link in self._links.values())

    def _drain(self) -> Iterator[MasterAction]:
        """Proposes the successor when every barrier is done and the version of the state is certain."""
        successor, insync = self._successor, self.insync
        if successor not in insync.members or not self.barriers.is_all_done:
            return
        if not insync.is_settled:
            if insync.may_propose and (proposal := insync.propose(insync.members)):
                yield Propose(proposal, needs_own_node=False)
            return
        assert successor is not None
        self.hand_over = HAND_OVER[self.hand_over, HandOverEvent.DRAINED]
        state = insync.state.led_by(successor, self._successor_nonce)
        yield Propose(Proposal(state, insync.version), needs_own_node=False)

    def _answer(self, link: _Link, now: float) -> Iterator[MasterAction]:
        """Answers the fetch of a link if there is something to send, or if it has waited long enough."""
        identity = link.identity
        if link.ranges:
            yield SendRanges(identity.replica, link.link, link.number + 1, link.start, link.ranges, link.size_max)
            self._sent(link, now)
            return
        round = self.barriers.round(identity, link.size_max)
        if round is not None and round.is_behind:
            link.is_open, link.is_refused = False, True
            refused = ShardRefused(epoch=self.epoch, link=link.link, reason=Refusal.JOIN_AGAIN)
            yield SendAnswer(identity.replica, refused)
            return
        # The count is read first: an end that moves in between is sent again, and none is passed over.
        moves = self.barriers.moves
        ends = self.barriers.ends_since(link.moves_sent)
        if round is None and now < min(link.parked_until, link.due):
            if ends and link.due == NEVER:
                link.due = now + self._timing.ends_s
            return
        items: list[Item] = list(round.changes) if round is not None else []
        if ends:
            items.append(CommittedEnds(ends))
        link.moves_sent = moves
        # A slave that has fetched all ranges has reached the barrier at which it joined.
        barrier = round.barrier if round is not None else self.barriers.sent_to(identity)
        answer = ShardFetched(epoch=self.epoch, link=link.link, number=link.number + 1, barrier=barrier, items=items)
        self._sent(link, now)
        yield SendAnswer(identity.replica, answer)

    def _sent(self, link: _Link, now: float) -> None:
        link.number += 1
        link.is_open = False
        self.lease.answered(link.identity, now)
