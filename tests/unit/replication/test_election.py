"""The election: who may lead, how long a candidate waits, and what it does with each answer."""

from __future__ import annotations

from itertools import product

import pytest

from warren.replication.election import TRANSITIONS, Candidacy, Election, Sign
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, RegistryView, ShardState
from warren.replication.time_limits import NEVER, TimeLimits

ZERO, ONE, TWO = (Identity(replica, f"disk {replica}", "boot") for replica in range(3))
TIMING = TimeLimits(lease_s=1.0, turn_s=0.3)


def election_of(me: Identity = ONE, *, is_power_safe: bool = False, now: float = 0.0) -> Election:
    return Election(me, "mine", TIMING, (0, 1, 2), 2, is_power_safe=is_power_safe, now=now)


def view_of(
    *members: Identity,
    version: int = 5,
    epoch: int = 8,
    master: int | None = 0,
    nonce: str = "master's",
    nodes: tuple[int, ...] = (1, 2),
    unreached: tuple[int, ...] = (),
    dead: int | None = None,
) -> RegistryView:
    """Returns a view in which, by default, replica 0 was master and is gone."""
    state = ShardState(epoch=epoch, master=master, insync=frozenset(members or (ZERO, ONE, TWO)), nonce=nonce)
    processes = {node: nonce if node == master else f"process {node}" for node in nodes}
    return RegistryView(
        state=state, version=version, nodes=processes, unreached=dict.fromkeys(unreached, epoch), dead=dead
    )


def candidate(view: RegistryView | None = None, me: Identity = ONE) -> tuple[Election, Proposal]:
    """Returns the election of a slave that has just asked the registry."""
    election = election_of(me)
    election.see(view or view_of(), 10.0)
    proposal = election.timer(10.0) or election.timer(20.0)
    assert proposal is not None
    return election, proposal


@pytest.mark.parametrize(("candidacy", "sign"), list(product(Candidacy, Sign)))
def test_every_pair_is_in_the_table_or_is_an_error(candidacy: Candidacy, sign: Sign) -> None:
    election = election_of()
    election.candidacy = candidacy

    if (candidacy, sign) in TRANSITIONS:
        election._go(sign)
        assert election.candidacy is TRANSITIONS[candidacy, sign]
    else:
        with pytest.raises(KeyError):
            election._go(sign)


def test_a_slave_fetches_only_while_it_follows() -> None:
    election = election_of()

    assert election.may_fetch
    for candidacy in set(Candidacy) - {Candidacy.FOLLOWING}:
        election.candidacy = candidacy
        assert not election.may_fetch


def test_a_living_master_is_followed() -> None:
    election = election_of()

    election.see(view_of(nodes=(0, 1, 2)), 10.0)

    assert election.may_fetch
    assert election.deadline == NEVER
    assert election.timer(100.0) is None


def test_a_lost_master_stops_fetching_and_the_lease_since_the_last_fetch_is_waited_out() -> None:
    election = election_of(ZERO)
    election.fetch_sent(9.5)

    election.see(view_of(master=1, nodes=(0, 2)), 10.0)

    assert not election.may_fetch
    assert election.deadline == 10.5
    assert election.timer(10.4) is None
    assert election.timer(10.5) is not None


def test_an_earlier_process_may_have_fetched_until_this_one_began() -> None:
    election = election_of(ZERO, now=9.8)

    election.see(view_of(master=1, nodes=(0, 2)), 10.0)

    assert election.deadline == 10.8


@pytest.mark.parametrize(
    "view",
    [
        view_of(master=1, nodes=(0, 2), dead=8),
        view_of(master=0, nonce="an earlier process", nodes=(0, 2)),
        view_of(master=None, nodes=(0, 1, 2)),
    ],
    ids=["its parent saw the master die", "an earlier process of this replica", "never had a master"],
)
def test_a_master_that_is_surely_dead_has_no_lease(view: RegistryView) -> None:
    election = election_of(ZERO)
    election.fetch_sent(10.0)
    nodes = {**view.nodes, 0: "mine"}
    view = RegistryView(state=view.state, version=5, nodes=nodes, unreached={}, dead=view.dead)

    election.see(view, 10.0)

    assert election.timer(10.0) is not None


def test_an_older_death_does_not_end_the_lease_of_a_later_master() -> None:
    election = election_of(ZERO)
    election.fetch_sent(10.0)

    election.see(view_of(master=1, nodes=(0, 2), dead=7), 10.0)

    assert election.timer(10.0) is None


@pytest.mark.parametrize(
    ("me", "nodes", "delay"), [(ONE, (1, 2), 0.0), (TWO, (1, 2), 0.3), (TWO, (2,), 0.0), (TWO, (0, 1, 2), 0.6)]
)
def test_living_members_that_are_preferred_go_first(me: Identity, nodes: tuple[int, ...], delay: float) -> None:
    election = election_of(me)
    view = view_of(nodes=nodes)
    restarted = {node: f"process {node}" for node in nodes}

    election.see(RegistryView(state=view.state, version=5, nodes=restarted, unreached={}), 10.0)
    proposal = election.timer(10.0)

    assert (proposal is not None) is (delay == 0.0)
    assert delay == 0.0 or election.deadline == pytest.approx(10.0 + delay)


@pytest.mark.parametrize(
    ("member", "is_power_safe", "expected"),
    [
        (ONE, False, True),
        (ONE._replace(boot="another"), False, False),
        (ONE._replace(boot="another"), True, True),
        (ONE._replace(incarnation="another"), True, False),
        (TWO, True, False),
    ],
    ids=["the same", "lost its memory", "everything is on disk", "another disk", "not in the set"],
)
def test_only_a_member_of_the_set_with_its_disk_and_boot_may_lead(
    member: Identity, is_power_safe: bool, expected: bool
) -> None:
    election = election_of(is_power_safe=is_power_safe)

    election.see(view_of(ZERO, member), 10.0)

    assert (election.timer(20.0) is not None) is expected
    assert election.may_fetch is not expected


@pytest.mark.parametrize(("unreached", "expected"), [((1, 2), True), ((1,), False), ((), False)])
def test_a_living_master_that_no_other_member_reaches_is_lost(unreached: tuple[int, ...], expected: bool) -> None:
    election = election_of()

    election.see(view_of(nodes=(0, 1, 2), unreached=unreached), 10.0)

    assert election.may_fetch is not expected


def test_the_compare_and_set_keeps_the_set_and_names_this_process() -> None:
    _, proposal = candidate()

    assert proposal.version == 5
    assert proposal.state == ShardState(epoch=9, master=1, insync=frozenset({ZERO, ONE, TWO}), nonce="mine")


def test_a_winner_leads_in_the_state_that_it_proposed() -> None:
    election, proposal = candidate()

    election.answered(ProposalOutcome.DONE)

    assert election.candidacy is Candidacy.WON
    assert election.won == Proposal(proposal.state, 6)


def test_a_refused_candidate_waits_for_a_new_view() -> None:
    election, _ = candidate()

    election.answered(ProposalOutcome.REFUSED)

    assert election.timer(100.0) is None
    assert not election.may_fetch
    election.see(view_of(version=6, epoch=9, master=2, nodes=(1, 2)), 100.0)
    assert election.may_fetch


def test_a_slave_recognizes_by_its_nonce_that_an_unknown_outcome_was_done() -> None:
    election, proposal = candidate()
    election.answered(ProposalOutcome.UNKNOWN)
    view = RegistryView(state=proposal.state, version=6, nodes={1: "mine"}, unreached={})

    election.see(view, 30.0)

    assert election.won == Proposal(proposal.state, 6)


def test_a_candidate_with_an_unknown_outcome_at_the_same_version_asks_again_and_does_not_fetch() -> None:
    election, first = candidate()
    election.answered(ProposalOutcome.UNKNOWN)

    election.see(view_of(nodes=(0, 1, 2)), 30.0)
    again = election.timer(30.0)

    assert not election.may_fetch
    assert again == first


def test_a_higher_version_settles_an_unknown_outcome() -> None:
    election, _ = candidate()
    election.answered(ProposalOutcome.UNKNOWN)

    election.see(view_of(version=6, epoch=9, master=2), 30.0)

    assert election.may_fetch
    assert election.won is None


def test_a_slave_that_the_master_hands_over_to_leads_without_a_proposal() -> None:
    election = election_of()
    election.fetch_sent(10.0)

    election.see(view_of(version=6, epoch=9, master=1, nonce="mine"), 10.0)

    assert election.won is not None
    assert election.won.version == 6


def test_a_process_that_is_named_with_another_disk_does_not_lead() -> None:
    election = election_of()
    other = ONE._replace(incarnation="another disk")

    election.see(view_of(ZERO, other, version=6, epoch=9, master=1, nonce="mine"), 10.0)

    assert election.won is None


def test_a_view_that_is_older_changes_nothing() -> None:
    election = election_of()
    election.see(view_of(version=6, epoch=9, master=2), 10.0)

    election.see(view_of(version=5), 11.0)

    assert election.may_fetch
    assert election.view is not None
    assert election.view.version == 6


def test_a_candidate_follows_again_if_its_reason_is_gone_before_it_asks() -> None:
    election = election_of()
    election.see(view_of(nodes=(0, 1, 2), unreached=(1, 2)), 0.5)

    election.see(view_of(nodes=(0, 1, 2), unreached=(2,)), 0.6)

    assert election.may_fetch
    assert election.timer(100.0) is None
