"""The state of a shard: its JSON, the next master, and when a master is gone."""

from __future__ import annotations

import pytest

from warren.errors import MalformedState
from warren.replication.shard_state import Identity, RegistryView, ShardState

ZERO, ONE, TWO = (Identity(replica, f"disk {replica}", "boot") for replica in range(3))
STATE = ShardState(epoch=8, master=1, insync=frozenset({ZERO, ONE, TWO}), nonce="p")


def view_of(nodes: dict[int, str], unreached: dict[int, int]) -> RegistryView:
    return RegistryView(state=STATE, version=1, nodes=nodes, unreached=unreached)


def test_a_state_comes_back_from_its_node() -> None:
    founded = ShardState(epoch=0, master=None, insync=frozenset({ONE}), nonce="")

    assert ShardState.from_json(STATE.to_json()) == STATE
    assert ShardState.from_json(founded.to_json()) == founded
    assert founded.to_json() == (
        b'{"epoch":0,"master":null,"insync":{"1":{"incarnation":"disk 1","boot":"boot"}},"nonce":""}'
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"[]", "are needed"),
        (b'{"epoch":1,"master":1,"insync":{}}', "are needed"),
        (b'{"epoch":"1","master":1,"insync":{},"nonce":""}', "wrong type"),
        (b'{"epoch":1,"master":-1,"insync":{},"nonce":""}', "wrong type"),
        (b'{"epoch":1,"master":1,"insync":{},"nonce":7}', "wrong type"),
        (b'{"epoch":1,"master":1,"insync":[],"nonce":""}', "not an object"),
        (b'{"epoch":1,"master":1,"insync":{"x":{}},"nonce":""}', "not the number of a replica"),
        (b'{"epoch":1,"master":1,"insync":{"1":1},"nonce":""}', "not an object"),
        (b'{"epoch":1,"master":1,"insync":{"1":{"boot":"b"}},"nonce":""}', "no incarnation"),
    ],
)
def test_a_malformed_state_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedState, match=reason):
        ShardState.from_json(data)


def test_the_next_master_keeps_the_set_and_is_in_it_with_its_present_identity() -> None:
    now = ONE._replace(boot="another boot")

    state = STATE.led_by(now, "q")

    assert (state.epoch, state.master, state.nonce) == (9, 1, "q")
    assert state.insync == {ZERO, now, TWO}


def test_a_replica_is_in_the_set_with_one_identity_or_not_at_all() -> None:
    assert STATE.identity_of(2) == TWO
    assert STATE.identity_of(3) is None


def test_a_later_process_of_the_master_is_not_the_master() -> None:
    assert view_of({1: "p"}, {}).is_master_alive
    assert not view_of({1: "q"}, {}).is_master_alive
    assert not view_of({0: "p"}, {}).is_master_alive


@pytest.mark.parametrize(
    ("unreached", "min_insync", "expected"),
    [
        ({0: 8, 2: 8}, 2, True),
        ({0: 8, 2: 8}, 3, False),
        ({0: 8}, 1, False),
        ({0: 8, 2: 7}, 2, False),
        ({}, 0, False),
    ],
)
def test_a_master_is_unreached_if_all_others_say_so_and_are_enough(
    unreached: dict[int, int], min_insync: int, expected: bool
) -> None:
    assert view_of({1: "p"}, unreached).is_master_unreached(min_insync) is expected
