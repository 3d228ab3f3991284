"""The slave: the steps of a join in their order, when it acknowledges, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

import pytest

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
from warren.replication.changes import CommittedEnds, Item, LogRange, RemovedLog
from warren.replication.election import Election
from warren.replication.epochs import Epoch, Epochs
from warren.replication.messages import (
    FetchShard,
    FetchState,
    LinkId,
    ListState,
    Refusal,
    ShardFetched,
    ShardJoined,
    ShardRefused,
    StateFetched,
    StateListed,
)
from warren.replication.shard_state import Identity, ProposalOutcome, RegistryView, ShardState
from warren.replication.slave import TRANSITIONS, Link, LinkEvent, Slave
from warren.replication.time_limits import TimeLimits

ZERO, ME = (Identity(replica, f"disk {replica}", "boot") for replica in range(2))
TIMING = TimeLimits(lease_s=1.0, answer_s=1.0, retry_s=0.1, unreached_s=3.0)
EPOCHS = Epochs((Epoch(epoch=8, master=0, began="", tails={"a": 3}),))
LINK = LinkId("mine", 1)
RANGE = LogRange("a", 0, 3, 3, 4, 1, b"x")
Kind = TypeVar("Kind")


def view_of(
    *, epoch: int = 8, master: int = 0, nonce: str = "master's", version: int = 5, is_alive: bool = True
) -> RegistryView:
    state = ShardState(epoch=epoch, master=master, insync=frozenset({ZERO, ME}), nonce=nonce)
    nodes = {1: "mine"} | ({master: nonce} if is_alive else {})
    return RegistryView(state=state, version=version, nodes=nodes, unreached={})


def slave_at(link: Link) -> Slave:
    """Returns a slave that has reached this step on its first link, at time 10."""
    election = Election(ME, "mine", TIMING, (0, 1), 1, is_power_safe=True, now=0.0)
    slave = Slave(election, TIMING, now=0.0, size_max=100)
    joined = ShardJoined(epoch=8, link=LINK, epochs=EPOCHS, first={}, cuts={"a": 3}, barrier=4)
    listed = StateListed(epoch=8, link=LINK, after="", digests={"f": b"1"}, is_complete=True)
    steps: tuple[tuple[Link, Callable[[], object]], ...] = (
        (Link.JOINING, lambda: slave.see(view_of(), 10.0)),
        (Link.CUTTING, lambda: slave.received(joined, 10.0)),
        (Link.KEEPING_EPOCHS, lambda: slave.disk_done(10.0)),
        (Link.LISTING, lambda: slave.disk_done(10.0)),
        (Link.COMPARING, lambda: slave.received(listed, 10.0)),
        (Link.FETCHING_STATE, lambda: slave.state_compared(["f"], ["g"], 10.0)),
        (Link.WRITING_STATE, lambda: slave.received(StateFetched(epoch=8, link=LINK, contents={"f": b""}), 10.0)),
        (Link.FETCHING, lambda: slave.disk_done(10.0)),
        (Link.APPLYING, lambda: slave.received(round_of(RANGE), 10.0)),
    )
    for reached, step in steps:
        if slave.state is link:
            break
        step()
        assert slave.state is reached
    return slave


def round_of(*items: Item, number: int = 1, barrier: int = 5) -> ShardFetched:
    return ShardFetched(epoch=8, link=LINK, number=number, barrier=barrier, items=items)


def of_kind(kind: type[Kind], actions: Sequence[SlaveAction]) -> list[Kind]:
    return [action for action in actions if isinstance(action, kind)]


@pytest.mark.parametrize(("link", "event"), list(product(Link, LinkEvent)))
def test_every_pair_is_in_the_table_or_is_an_error(link: Link, event: LinkEvent) -> None:
    slave = slave_at(Link.IDLE)
    slave.state = link

    if (link, event) in TRANSITIONS:
        slave._go(event)
        assert slave.state is TRANSITIONS[link, event]
    else:
        with pytest.raises(KeyError):
            slave._go(event)


def test_a_link_can_be_lost_in_every_state() -> None:
    assert all((link, LinkEvent.LOST) in TRANSITIONS for link in Link)


def test_a_slave_joins_the_living_master() -> None:
    assert slave_at(Link.IDLE).see(view_of(), 10.0) == [SendJoin(0, LINK, 8)]


def test_logs_are_cut_before_the_epochs_are_kept_and_the_epochs_before_anything_is_fetched() -> None:
    slave = slave_at(Link.JOINING)

    cut = slave.received(ShardJoined(epoch=8, link=LINK, epochs=EPOCHS, first={"a": 1}, cuts={"a": 3}, barrier=0), 10.0)
    keep = slave.disk_done(10.0)
    (ask,) = slave.disk_done(10.0)

    assert cut == [CutLogs({"a": 3}, {"a": 1})]
    assert keep == [KeepEpochs(EPOCHS)]
    assert isinstance(ask, SendRequest)
    assert isinstance(ask.request, ListState)


def test_a_slave_knows_what_is_committed_as_far_as_its_master_has_said_on_this_link() -> None:
    slave = slave_at(Link.FETCHING)
    slave.received(round_of(CommittedEnds({"a": 3, "b": 7})), 10.0)
    slave.received(round_of(CommittedEnds({"a": 4}), RemovedLog("b"), number=2), 10.0)
    committed = dict(slave.committed)

    slave.connection_lost(LINK, 10.0)
    slave.disk_done(10.0)
    slave.timer(11.0)

    assert committed == {"a": 4}
    assert (slave.state, slave.committed) == (Link.JOINING, {})


def test_a_slave_has_caught_up_when_it_has_all_older_records() -> None:
    slaves = [slave_at(link) for link in Link]
    caught_up = {slave.state for slave in slaves if slave.has_caught_up}
    behind = slave_at(Link.JOINING)
    behind.received(ShardJoined(epoch=8, link=LINK, epochs=EPOCHS, first={}, cuts={"a": 3}, barrier=0), 10.0)
    behind.state = Link.FETCHING
    caught_up_after = [behind.has_caught_up]
    for number, barrier in ((1, 0), (2, 4)):
        behind.received(round_of(CommittedEnds({}), number=number, barrier=barrier), 10.0)
        caught_up_after.append(behind.has_caught_up)

    assert caught_up == {Link.FETCHING, Link.APPLYING}
    assert caught_up_after == [False, False, True]


def test_a_long_list_of_state_files_is_fetched_in_parts() -> None:
    slave = slave_at(Link.LISTING)

    (more,) = slave.received(
        StateListed(epoch=8, link=LINK, after="", digests={"a": b"1", "b": b"2"}, is_complete=False), 10.0
    )
    (compare,) = slave.received(StateListed(epoch=8, link=LINK, after="b", digests={"c": b"3"}, is_complete=True), 10.0)

    assert isinstance(more, SendRequest)
    assert isinstance(more.request, ListState)
    assert more.request.after == "b"
    assert compare == CompareState({"a": b"1", "b": b"2", "c": b"3"})


def test_state_files_that_differ_are_fetched_and_those_that_the_master_lacks_are_removed() -> None:
    slave = slave_at(Link.COMPARING)

    (ask,) = slave.state_compared(["f", "h"], ["g"], 10.0)
    (next_request,) = slave.received(StateFetched(epoch=8, link=LINK, contents={"f": b"1"}), 10.0)
    write = slave.received(StateFetched(epoch=8, link=LINK, contents={"h": None}), 10.0)

    assert isinstance(ask, SendRequest)
    assert isinstance(next_request, SendRequest)
    assert isinstance(ask.request, FetchState)
    assert isinstance(next_request.request, FetchState)
    assert (list(ask.request.paths), list(next_request.request.paths)) == (["f", "h"], ["h"])
    assert write == [WriteState({"g": None, "f": b"1", "h": None})]


def test_equal_state_files_are_not_fetched_and_the_first_fetch_says_what_was_reached() -> None:
    slave = slave_at(Link.COMPARING)

    (ask,) = slave.state_compared([], [], 10.0)

    assert isinstance(ask, SendRequest)
    assert ask.request == FetchShard(identity=ME, link=LINK, epoch=8, follows=0, acked=4, size_max=100)


def test_a_round_is_acknowledged_after_the_disk_has_it_and_shown_as_far_as_it_is_committed() -> None:
    slave = slave_at(Link.FETCHING)

    apply = slave.received(round_of(RANGE, CommittedEnds({"a": 3})), 11.0)
    show, ask = slave.disk_done(12.0)

    assert apply == [Apply((RANGE, CommittedEnds({"a": 3})))]
    assert show == Show({"a": 3})
    assert isinstance(ask, SendRequest)
    assert isinstance(ask.request, FetchShard)
    assert (ask.request.follows, ask.request.acked) == (1, 5)


def test_a_round_without_changes_needs_no_disk() -> None:
    slave = slave_at(Link.FETCHING)

    actions = slave.received(round_of(CommittedEnds({"a": 3})), 11.0)

    assert [type(action) for action in actions] == [Show, SendRequest]


@pytest.mark.parametrize(
    "answer",
    [
        round_of(RANGE, number=2),
        ShardFetched(epoch=8, link=LinkId("mine", 7), number=1, barrier=5, items=(RANGE,)),
        StateFetched(epoch=8, link=LINK, contents={}),
    ],
    ids=["another number", "another link", "another kind"],
)
def test_an_answer_that_the_slave_does_not_wait_for_changes_nothing(answer: ShardFetched | StateFetched) -> None:
    slave = slave_at(Link.FETCHING)

    assert slave.received(answer, 11.0) == []
    assert slave.state is Link.FETCHING


def test_a_refused_slave_reads_the_registry_and_joins_again_later() -> None:
    slave = slave_at(Link.FETCHING)

    refused = slave.received(ShardRefused(epoch=9, link=LINK, reason=Refusal.NOT_MASTER), 11.0)
    again = slave.timer(11.1)

    assert refused == [ReadRegistry()]
    assert again == [SendJoin(0, LinkId("mine", 2), 8)]


def test_a_slave_that_gets_no_answer_joins_again() -> None:
    slave = slave_at(Link.FETCHING)
    due = 10.0 + TIMING.fetch_wait_s + TIMING.answer_s

    assert slave.deadline == due
    slave.timer(due)
    assert slave.timer(due + TIMING.retry_s) == [SendJoin(0, LinkId("mine", 2), 8)]


def test_a_slave_whose_connection_is_lost_joins_again() -> None:
    slave = slave_at(Link.FETCHING)

    slave.connection_lost(LinkId("mine", 9), 11.0)
    before = slave.state
    slave.connection_lost(LINK, 11.0)

    assert (before, slave.state) == (Link.FETCHING, Link.IDLE)


def test_a_slave_without_a_common_epoch_starts_from_nothing() -> None:
    slave = slave_at(Link.JOINING)
    joined = ShardJoined(epoch=8, link=LINK, epochs=EPOCHS, first={}, cuts=None, barrier=0)

    assert slave.received(joined, 10.0) == [StartFromNothing()]


def test_a_slave_stops_fetching_when_the_master_is_gone_and_asks_after_the_lease() -> None:
    slave = slave_at(Link.FETCHING)

    slave.see(view_of(is_alive=False), 10.5)
    late = slave.received(round_of(RANGE), 10.6)
    early = slave.timer(10.9)
    (propose,) = slave.timer(11.0)

    assert slave.state is Link.IDLE
    assert late == []
    assert early == []
    assert isinstance(propose, Propose)
    assert propose.needs_own_node


def test_a_winner_leads_only_after_its_disk_has_finished() -> None:
    slave = slave_at(Link.APPLYING)
    slave.see(view_of(is_alive=False), 10.5)
    slave.timer(12.0)

    won = slave.outcome(ProposalOutcome.DONE, 12.1)
    (promote,) = slave.disk_done(12.2)

    assert won == []
    assert isinstance(promote, Promote)
    assert (promote.won.state.master, promote.won.version) == (1, 6)


def test_a_refused_candidate_reads_the_registry() -> None:
    slave = slave_at(Link.FETCHING)
    slave.see(view_of(is_alive=False), 10.5)
    slave.timer(12.0)

    assert slave.outcome(ProposalOutcome.REFUSED, 12.1) == [ReadRegistry()]


def test_a_slave_joins_a_new_master_without_a_delay() -> None:
    slave = slave_at(Link.FETCHING)

    actions = slave.see(view_of(epoch=9, nonce="another", version=6), 11.0)

    assert of_kind(SendJoin, actions) == [SendJoin(0, LinkId("mine", 2), 9)]


def test_a_new_master_waits_until_the_disk_has_finished_for_the_old_one() -> None:
    slave = slave_at(Link.APPLYING)

    waiting = slave.see(view_of(epoch=9, nonce="another", version=6), 11.0)
    actions = slave.disk_done(11.1)

    assert waiting == []
    assert of_kind(SendJoin, actions) == [SendJoin(0, LinkId("mine", 2), 9)]


def test_a_member_notes_that_the_master_is_silent_and_clears_the_note_when_it_answers() -> None:
    slave = slave_at(Link.FETCHING)
    slave.timer(12.0)
    slave.timer(12.2)

    silent = of_kind(NoteUnreached, slave.timer(13.0))
    again = of_kind(NoteUnreached, slave.timer(13.0))
    answered = slave.received(
        ShardJoined(epoch=8, link=LinkId("mine", 2), epochs=EPOCHS, first={}, cuts={}, barrier=0), 13.1
    )

    assert silent == [NoteUnreached(8)]
    assert again == []
    assert of_kind(ClearUnreached, answered) == [ClearUnreached()]
