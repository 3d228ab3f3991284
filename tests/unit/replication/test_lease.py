"""The read lease: from when it counts, how long it holds, and whose promises it needs."""

from __future__ import annotations

import pytest

from warren.replication.lease import ReadLease
from warren.replication.shard_state import Identity
from warren.replication.time_limits import RATE_ALLOWANCE, TimeLimits

ONE, TWO = (Identity(replica, "disk", "boot") for replica in (1, 2))


def lease_of(*others: Identity) -> ReadLease:
    return ReadLease(TimeLimits(lease_s=1.0), lambda: frozenset(others))


def test_a_master_that_is_alone_always_holds_the_lease() -> None:
    assert lease_of().is_held(1e9)


def test_without_a_fetch_there_is_no_lease() -> None:
    lease = lease_of(ONE)

    lease.answered(ONE, 10.0)

    assert not lease.is_held(10.0)


@pytest.mark.parametrize(("now", "expected"), [(10.5, True), (10.979, True), (10.98, False), (11.5, False)])
def test_the_lease_counts_from_the_answer_that_the_fetch_follows(now: float, expected: bool) -> None:
    lease = lease_of(ONE)
    lease.answered(ONE, 10.0)

    lease.fetched(ONE)

    assert lease.is_held(now) is expected


def test_every_other_member_must_have_promised() -> None:
    lease = lease_of(ONE, TWO)
    for member, at in ((ONE, 10.0), (TWO, 10.4)):
        lease.answered(member, at)
        lease.fetched(member)

    assert lease.is_held(10.9)
    assert not lease.is_held(11.1)


def test_an_answer_alone_does_not_lengthen_the_lease() -> None:
    lease = lease_of(ONE)
    lease.answered(ONE, 10.0)
    lease.fetched(ONE)

    lease.answered(ONE, 10.9)

    assert not lease.is_held(11.0)


def test_the_lease_ends_before_a_slave_leads_at_all_rates_within_the_allowance() -> None:
    timing = TimeLimits(lease_s=1.0)
    fast_slave, slow_master = 1 + RATE_ALLOWANCE / 2, 1 - RATE_ALLOWANCE / 2

    assert timing.lease_held_s / slow_master < timing.lease_s / fast_slave
    assert timing.fetch_wait_s < timing.lease_held_s
