"""The master: promotion in its order, joins and fetches, the set, the lease, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

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
from warren.replication.changes import CommittedEnds, LogRange
from warren.replication.epochs import Epoch, Epochs
from warren.replication.master import Master
from warren.replication.mastership import HandOver, Promotion
from warren.replication.messages import (
    FetchShard,
    FetchState,
    JoinShard,
    LinkId,
    ListState,
    MasterAnswer,
    Refusal,
    ShardFetched,
    ShardJoined,
    ShardRefused,
)
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, RegistryView, ShardState
from warren.replication.time_limits import TimeLimits

ME, ONE, TWO = (Identity(replica, f"disk {replica}", "boot") for replica in range(3))
TIMING = TimeLimits(lease_s=1.0, lag_s=2.0, ends_s=0.01)
OLD = Epochs((Epoch(epoch=7, master=1, began="", tails={"a": 0}),))
Kind = TypeVar("Kind")


def master_of(*members: Identity, min_insync: int = 2, tail: int = 3) -> Master:
    state = ShardState(epoch=8, master=0, insync=frozenset({ME, *members}), nonce="mine")
    return Master(
        ME, Proposal(state, 5), OLD, {"a": tail}, {}, {"a": 1}, (0, 1, 2), min_insync, TIMING, began="", now=0.0
    )


def serving(*members: Identity, min_insync: int = 2) -> Master:
    """Returns a master whose members have joined and acknowledged barrier 1."""
    master = master_of(*members, min_insync=min_insync)
    master.start(0.0)
    master.epochs_kept(0.0)
    master.store_opened(0.0)
    for member in members:
        join(master, member)
        fetch(master, member, follows=0, acked=1)
    assert master.promotion is Promotion.SERVING
    return master


def join(
    master: Master, member: Identity, *, number: int = 1, tail: int = 3, epochs: Epochs = OLD, now: float = 0.0
) -> list[MasterAction]:
    link = LinkId(f"process {member.replica}", number)
    request = JoinShard(identity=member, link=link, epoch=8, epochs=epochs, first={}, tails={"a": tail} if tail else {})
    return master.received(request, now)


def fetch(
    master: Master,
    member: Identity,
    *,
    follows: int,
    acked: int,
    number: int = 1,
    epoch: int = 8,
    now: float = 0.0,
) -> list[MasterAction]:
    link = LinkId(f"process {member.replica}", number)
    request = FetchShard(identity=member, link=link, epoch=epoch, follows=follows, acked=acked, size_max=1000)
    return master.received(request, now)


def view_of(
    master: Master, *, nodes: Sequence[int] = (0, 1, 2), version: int = 5, epoch: int = 8, unreached: Sequence[int] = ()
) -> RegistryView:
    state = ShardState(epoch=epoch, master=0, insync=master.insync.members, nonce="mine")
    processes = {node: "mine" if node == 0 else f"process {node}" for node in nodes}
    return RegistryView(state=state, version=version, nodes=processes, unreached=dict.fromkeys(unreached, epoch))


def of_kind(kind: type[Kind], actions: Sequence[MasterAction]) -> list[Kind]:
    return [action for action in actions if isinstance(action, kind)]


def answers(actions: Sequence[MasterAction]) -> list[MasterAnswer]:
    return [action.answer for action in of_kind(SendAnswer, actions)]


def put(master: Master, now: float = 0.0) -> int:
    tail = master.barriers.tails["a"]
    number = master.barriers.next(LogRange("a", 0, tail, tail, tail + 1, 10), now)
    master.barriers.synced(number)
    return number


def test_the_list_of_epochs_is_kept_before_the_store_opens() -> None:
    master = master_of(ONE)

    (keep,) = master.start(0.0)
    opened = master.epochs_kept(0.0)

    assert isinstance(keep, KeepEpochs)
    assert keep.epochs.entries[-1] == Epoch(epoch=8, master=0, began="", tails={"a": 3})
    assert opened[:2] == [OpenStore(), ReadRegistry()]


def test_a_slave_that_joins_early_is_answered_when_the_epochs_are_kept() -> None:
    master = master_of(ONE)
    master.start(0.0)

    early = join(master, ONE)
    actions = master.epochs_kept(0.0)

    assert early == []
    assert isinstance(answers(actions)[0], ShardJoined)


def test_tails_are_shown_and_requests_taken_only_after_barrier_1() -> None:
    master = master_of(ONE)
    master.start(0.0)
    master.epochs_kept(0.0)
    opened = master.store_opened(0.0)
    join(master, ONE)
    before = dict(master.barriers.committed)

    actions = fetch(master, ONE, follows=0, acked=1)

    assert of_kind(Serve, opened) == []
    assert before == {"a": 1}
    assert [action for action in actions if isinstance(action, LiftVisible | Serve)] == [
        LiftVisible({"a": 3}),
        Serve(),
    ]


def test_a_master_that_is_alone_serves_by_itself() -> None:
    master = master_of(min_insync=1)
    master.start(0.0)

    actions = master.epochs_kept(0.0)
    opened = master.store_opened(0.0)

    assert of_kind(LiftVisible, actions) == [LiftVisible({"a": 3})]
    assert of_kind(Serve, opened) == [Serve()]
    assert master.may_tell_ends(1e9)


def test_a_slave_learns_where_to_cut_and_gets_older_records_first() -> None:
    master = serving(ONE)
    put(master)

    (joined,) = answers(join(master, TWO, tail=1))
    actions = fetch(master, TWO, follows=0, acked=0)

    assert isinstance(joined, ShardJoined)
    assert (joined.cuts, joined.barrier, joined.epochs) == ({"a": 1}, 0, master.epochs)
    assert of_kind(SendRanges, actions) == [SendRanges(2, LinkId("process 2", 1), 1, 2, [("a", 1, 4)], 1000)]


def test_ranges_that_did_not_fit_are_sent_next() -> None:
    master = serving(ONE)
    join(master, TWO, tail=0, epochs=Epochs())
    fetch(master, TWO, follows=0, acked=0)

    master.ranges_left(2, [("a", 2, 3)])
    actions = fetch(master, TWO, follows=1, acked=0)

    assert of_kind(SendRanges, actions)[0].ranges == [("a", 2, 3)]


def test_a_slave_without_a_common_epoch_starts_from_nothing() -> None:
    master = serving(ONE)
    other = Epochs((Epoch(epoch=3, master=0, began="", tails={}),))

    (joined,) = answers(join(master, TWO, epochs=other))

    assert isinstance(joined, ShardJoined)
    assert joined.cuts is None


def test_a_fetch_is_parked_until_there_is_something_to_send() -> None:
    master = serving(ONE)
    parked = master.wake(0.0)

    put(master)
    (answer,) = answers(master.wake(0.005))

    assert parked == []
    assert isinstance(answer, ShardFetched)
    assert (answer.number, answer.barrier) == (1, 2)
    assert [item.first for item in answer.items if isinstance(item, LogRange)] == [3]


def test_a_parked_fetch_is_answered_with_nothing_when_its_time_is_over() -> None:
    master = serving(ONE)
    master.timer(TIMING.ends_s)
    parked = fetch(master, ONE, follows=1, acked=1, now=0.1)

    early = master.timer(0.2)
    late = master.timer(0.1 + TIMING.fetch_wait_s)

    assert (parked, early) == ([], [])
    assert [answer.items for answer in answers(late) if isinstance(answer, ShardFetched)] == [[]]


def test_committed_ends_travel_alone_after_a_moment() -> None:
    master = serving(ONE)
    first = answers(master.timer(TIMING.ends_s))
    put(master, 0.1)
    answers(fetch(master, ONE, follows=1, acked=1, now=0.1))

    fetch(master, ONE, follows=2, acked=2, now=0.2)
    assert master.deadline() <= 0.2 + TIMING.ends_s
    (answer,) = answers(master.timer(0.2 + TIMING.ends_s))

    assert isinstance(first[0], ShardFetched)
    assert list(first[0].items) == [CommittedEnds({"a": 3})]
    assert isinstance(answer, ShardFetched)
    assert list(answer.items) == [CommittedEnds({"a": 4})]


def test_a_repeated_request_changes_nothing() -> None:
    master = serving(ONE)

    assert join(master, ONE) == []
    assert fetch(master, ONE, follows=0, acked=1) == []
    assert fetch(master, ONE, follows=5, acked=9) == []
    assert master.barriers.acked_by(ONE) == 1


def test_a_request_of_another_link_or_epoch_is_refused() -> None:
    master = serving(ONE)

    (other_link,) = answers(fetch(master, ONE, follows=0, acked=1, number=9))
    (old_epoch,) = answers(fetch(master, ONE, follows=0, acked=1, epoch=7))

    assert isinstance(other_link, ShardRefused)
    assert isinstance(old_epoch, ShardRefused)
    assert (other_link.reason, old_epoch.reason) == (Refusal.JOIN_AGAIN, Refusal.NOT_MASTER)


def test_a_link_whose_connection_is_lost_has_to_be_joined_again() -> None:
    master = serving(ONE)

    master.connection_lost(1, LinkId("process 1", 1))
    (answer,) = answers(fetch(master, ONE, follows=1, acked=1))

    assert isinstance(answer, ShardRefused)


def test_state_files_are_answered_as_they_are_now() -> None:
    master = serving(ONE)
    link = LinkId("process 1", 1)

    listed = master.received(ListState(identity=ONE, link=link, epoch=8, after="x"), 0.0)
    fetched = master.received(FetchState(identity=ONE, link=link, epoch=8, paths=["p"]), 0.0)

    assert listed == [SendDigests(1, link, "x")]
    assert fetched == [SendContents(1, link, ["p"])]


def test_a_higher_epoch_ends_the_process() -> None:
    assert of_kind(EndProcess, fetch(serving(ONE), ONE, follows=1, acked=1, epoch=9))
    master = serving(ONE)
    assert of_kind(EndProcess, master.see(view_of(master, epoch=9, version=6), 0.0))


def test_an_expired_session_ends_the_process() -> None:
    master = serving(ONE)

    assert of_kind(EndProcess, master.see(view_of(master, nodes=(1, 2)), 0.0))


@pytest.mark.parametrize(("now", "expected"), [(1.0, False), (3.0, True)])
def test_a_master_that_no_member_reaches_or_fetches_from_ends(now: float, expected: bool) -> None:
    master = serving(ONE, TWO)

    actions = master.see(view_of(master, unreached=(1, 2)), now)

    assert bool(of_kind(EndProcess, actions)) is expected


def test_a_member_whose_process_is_gone_leaves_the_set_with_the_next_view() -> None:
    master = serving(ONE, TWO)

    (propose,) = of_kind(Propose, master.see(view_of(master, nodes=(0, 1)), 0.1))

    assert propose.proposal.state.insync == {ME, ONE}
    assert master.insync.others() == {ONE, TWO}
    master.outcome(ProposalOutcome.DONE, 0.2)
    assert master.insync.others() == {ONE}


def test_a_member_that_lags_leaves_the_set_and_barriers_no_longer_wait_for_it() -> None:
    master = serving(ONE, TWO)
    number = put(master)
    master.wake(0.0)
    fetch(master, ONE, follows=1, acked=2, now=1.9)

    early = of_kind(Propose, master.timer(1.9))
    (late,) = of_kind(Propose, master.timer(2.5))
    before = master.barriers.is_done(number)
    master.outcome(ProposalOutcome.DONE, 2.6)

    assert early == []
    assert late.proposal.state.insync == {ME, ONE}
    assert not before
    assert master.barriers.is_done(number)


def test_the_set_stays_at_its_minimum_and_puts_are_refused() -> None:
    master = serving(ONE)
    put(master)

    actions = master.timer(10.0)

    assert of_kind(Propose, actions) == []
    assert not master.takes_puts(10.0)


def test_a_slave_that_is_near_is_counted_and_taken_in_at_its_mark() -> None:
    master = serving(ONE)
    join(master, TWO)
    fetch(master, TWO, follows=0, acked=1)
    number = put(master)

    fetch(master, ONE, follows=1, acked=number)
    master.wake(0.0)

    assert master.insync.others() == {ONE, TWO}
    assert not master.barriers.is_done(number)


def test_a_slave_comes_in_once_it_has_acknowledged_the_mark() -> None:
    master = serving(ONE)
    join(master, TWO)

    (propose,) = of_kind(Propose, fetch(master, TWO, follows=0, acked=1))

    assert propose.proposal.state.insync == {ME, ONE, TWO}


def test_a_slave_that_is_welcomed_and_lags_is_no_longer_counted() -> None:
    master = serving(ONE)
    put(master)
    fetch(master, ONE, follows=1, acked=2)
    join(master, TWO, tail=4, epochs=master.epochs)
    fetch(master, TWO, follows=0, acked=1)
    assert TWO in master.insync.others()
    fetch(master, ONE, follows=2, acked=2, now=2.5)

    master.timer(2.6)

    assert master.insync.others() == {ONE}


def test_after_an_unknown_outcome_the_master_reads_and_always_proposes_again() -> None:
    master = serving(ONE)
    join(master, TWO)
    fetch(master, TWO, follows=0, acked=1)

    unknown = master.outcome(ProposalOutcome.UNKNOWN, 0.1)
    again = master.see(view_of(master), 0.2)

    assert of_kind(ReadRegistry, unknown)
    assert of_kind(Propose, again)
    assert TWO in master.insync.others()


def test_ends_are_given_under_the_lease_only() -> None:
    master = serving(ONE)

    assert master.may_tell_ends(0.5)
    assert not master.may_tell_ends(1.0)


def test_a_hand_over_waits_for_the_last_barrier_and_stops_reads_before_it_asks() -> None:
    master = serving(ONE, TWO)
    master.see(view_of(master), 0.0)
    number = put(master)
    first_actions = master.hand_over_to(2, 0.0)
    waiting = master.wake(0.0)

    fetch(master, ONE, follows=1, acked=number, now=0.1)
    actions = fetch(master, TWO, follows=1, acked=number, now=0.1)

    assert first_actions
    assert not master.takes_puts(0.0)
    assert of_kind(Propose, waiting) == []
    (propose,) = of_kind(Propose, actions)
    assert (propose.proposal.state.master, propose.proposal.state.epoch) == (2, 9)
    assert propose.proposal.state.nonce == "process 2"
    assert not master.may_tell_ends(0.1)
    assert of_kind(EndProcess, master.outcome(ProposalOutcome.UNKNOWN, 0.2))


def test_a_hand_over_that_takes_too_long_is_given_up() -> None:
    master = serving(ONE, TWO)
    master.see(view_of(master), 0.0)
    put(master)
    master.hand_over_to(2, 0.0)

    master.timer(2.0)

    assert master.hand_over is HandOver.NOT_WANTED


@pytest.mark.parametrize("replica", [0, 2, 7])
def test_a_hand_over_goes_to_another_member_that_fetches(replica: int) -> None:
    master = serving(ONE)
    join(master, TWO)

    assert not master.hand_over_to(replica, 0.0)


def test_a_hand_over_names_the_process_that_has_joined() -> None:
    master = serving(ONE)
    join(master, ONE._replace(incarnation="another disk"), number=2)

    assert not master.hand_over_to(1, 0.0)


def test_a_set_below_the_minimum_takes_no_puts_until_it_has_grown() -> None:
    master = serving(min_insync=2)

    assert not master.takes_puts(0.0)
    assert master.is_short_of_replicas(0.0)
    assert serving(ONE, min_insync=2).takes_puts(0.0)


def test_a_replica_that_is_removed_leaves_the_set() -> None:
    master = serving(ONE, TWO, min_insync=2)

    master.change_settings((0, 1), 2)
    proposed = of_kind(Propose, master.see(view_of(master), 0.1))

    assert [each.proposal.state.insync for each in proposed] == [frozenset({ME, ONE})]


def test_a_smaller_minimum_lets_the_set_shrink_further() -> None:
    master = serving(ONE, min_insync=2)

    master.change_settings((0, 1, 2), 1)
    proposed = of_kind(Propose, master.see(view_of(master, nodes=(0, 2)), 0.1))

    assert [each.proposal.state.insync for each in proposed] == [frozenset({ME})]


def test_a_master_measures_the_silence_of_a_slave_that_has_joined() -> None:
    master = serving(ONE)

    assert master.silent_s(1, 0.5) == 0.5
    assert master.silent_s(2, 0.5) is None
