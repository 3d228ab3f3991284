"""The in-sync set: who counts while it changes, who leaves and who comes in, and unknown outcomes."""

from __future__ import annotations

import pytest

from warren.errors import Deposed
from warren.replication.insync import InSync
from warren.replication.shard_state import Identity, ProposalOutcome, ShardState

ME = Identity(0, "disk 0", "boot")
ONE = Identity(1, "disk 1", "boot")
TWO = Identity(2, "disk 2", "boot")
ONE_NEW = Identity(1, "disk 9", "boot")


def members(*identities: Identity) -> frozenset[Identity]:
    return frozenset(identities)


def state_of(*members: Identity, epoch: int = 3) -> ShardState:
    return ShardState(epoch=epoch, master=0, insync=frozenset(members), nonce="n")


def insync_of(*members: Identity, min_insync: int = 2) -> InSync:
    return InSync(state_of(ME, *members), 7, ME, min_insync)


def test_the_master_itself_is_not_among_the_others() -> None:
    insync = insync_of(ONE)

    assert insync.counted() == members(ME, ONE)
    assert insync.others() == members(ONE)


def test_the_union_counts_while_the_set_changes() -> None:
    insync = insync_of(ONE)
    insync.welcome(TWO, 5)

    proposal = insync.propose(members(ME, TWO))

    assert proposal is not None
    assert (proposal.version, proposal.state) == (7, state_of(ME, TWO))
    assert insync.counted() == members(ME, ONE, TWO)
    assert insync.propose(members(ME, ONE)) is None


def test_a_change_that_is_done_counts_alone() -> None:
    insync = insync_of(ONE, TWO)
    insync.propose(members(ME, ONE))

    must_read = insync.answered(ProposalOutcome.DONE)

    assert not must_read
    assert (insync.counted(), insync.version) == (members(ME, ONE), 8)
    assert insync.is_settled


@pytest.mark.parametrize("outcome", [ProposalOutcome.UNKNOWN, ProposalOutcome.REFUSED])
def test_the_union_counts_until_a_higher_version_is_read(outcome: ProposalOutcome) -> None:
    insync = insync_of(ONE)
    insync.propose(members(ME, ONE, TWO))

    assert insync.answered(outcome)
    assert insync.propose(members(ME, ONE)) is None
    insync.settled(state_of(ME, ONE), 7)
    assert insync.counted() == members(ME, ONE, TWO)
    assert not insync.is_settled
    assert insync.propose(members(ME, ONE)) is not None
    insync.settled(state_of(ME, ONE), 8)
    assert insync.counted() == members(ME, ONE)


def test_an_outcome_that_comes_after_a_higher_version_changes_nothing() -> None:
    insync = insync_of(ONE, TWO)
    insync.propose(members(ME, ONE))

    insync.settled(state_of(ME, ONE), 8)
    assert not insync.may_propose
    must_read = insync.answered(ProposalOutcome.UNKNOWN)

    assert not must_read
    assert insync.may_propose
    assert (insync.version, insync.members) == (8, members(ME, ONE))


def test_a_view_that_is_older_than_the_proposal_does_not_end_it() -> None:
    insync = insync_of(ONE, TWO)
    insync.propose(members(ME, ONE))

    insync.settled(state_of(ME, ONE, TWO), 7)

    assert not insync.may_propose
    assert insync.counted() == members(ME, ONE, TWO)


def test_a_higher_epoch_deposes() -> None:
    with pytest.raises(Deposed) as raised:
        insync_of(ONE).settled(state_of(ME, ONE, epoch=4), 8)

    assert (raised.value.epoch, raised.value.higher) == (3, 4)


def test_no_proposal_is_below_the_minimum() -> None:
    insync = insync_of(ONE)

    assert insync.propose(members(ME)) is None
    assert insync.wish([ONE], {}) is None


def test_members_leave_in_their_order_down_to_the_minimum() -> None:
    insync = insync_of(ONE, TWO)

    assert insync.wish([TWO, ONE], {}) == members(ME, ONE)
    assert insync_of(ONE, TWO, min_insync=1).wish([TWO, ONE], {}) == members(ME)


def test_the_master_never_proposes_a_set_without_itself() -> None:
    assert insync_of(ONE, TWO, min_insync=1).wish([ME], {}) is None


def test_a_replica_counts_when_it_is_welcomed_and_comes_in_at_its_mark() -> None:
    insync = insync_of(ONE)

    insync.welcome(TWO, 5)

    assert TWO in insync.others()
    assert insync.wish([], {TWO: 4}) is None
    assert insync.wish([], {TWO: 5}) == members(ME, ONE, TWO)


def test_the_mark_of_a_replica_that_is_welcomed_twice_stays() -> None:
    insync = insync_of(ONE)

    insync.welcome(TWO, 5)
    insync.welcome(TWO, 9)

    assert insync.wish([], {TWO: 5}) is not None


def test_a_replica_that_is_dismissed_no_longer_counts_but_a_member_does() -> None:
    insync = insync_of(ONE)
    insync.welcome(TWO, 5)

    insync.dismiss(TWO)
    insync.dismiss(ONE)

    assert insync.others() == members(ONE)


def test_another_disk_replaces_the_old_one_and_both_count_until_it_has() -> None:
    insync = insync_of(ONE)
    insync.welcome(ONE_NEW, 5)

    wished = insync.wish([], {ONE_NEW: 5})

    assert wished == members(ME, ONE_NEW)
    insync.propose(wished)
    assert insync.others() == members(ONE, ONE_NEW)
    insync.answered(ProposalOutcome.DONE)
    assert insync.others() == members(ONE_NEW)
    assert insync.welcomed == []
