"""A shard in the registry: its settings and state, who lives, and what old clients read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import ceil
from typing import Any

import pytest

from warren.broker.cluster.overview import add_replica, elect_uncleanly, overview, remove_replica
from warren.broker.cluster.paths import ClusterPaths, node_id
from warren.broker.cluster.shard_registry import PUBLISHED_MAX, LivingReplica, ShardRegistry, ShardSettings, founders
from warren.errors import BadInput, MalformedState, WrongCluster
from warren.registry.local import Fault, LocalEnsemble, LocalRegistry
from warren.registry.registry import Delete, Reason, refused
from warren.replication.shard_state import Proposal, ProposalOutcome

ID = "6f0f1bb3-44a5-4a58-9b5f-0a5c7a0f6f3d"
SETTINGS = ShardSettings(replicas=(0, 1, 2), min_insync=2)


def living(replica: int, *, nonce: str = "", epoch: int = 0, is_empty: bool = True, disk: str = "") -> LivingReplica:
    return LivingReplica(
        shard=0,
        replica=replica,
        host="127.0.0.1",
        port=9092 + replica,
        nonce=nonce or f"process {replica}",
        incarnation=disk or f"disk {replica}",
        boot="boot",
        epoch=epoch,
        is_empty=is_empty,
    )


@pytest.fixture
def ensemble() -> LocalEnsemble:
    return LocalEnsemble()


def session(ensemble: LocalEnsemble) -> tuple[ShardRegistry, LocalRegistry]:
    registry = ensemble.connect()
    return ShardRegistry(registry, ClusterPaths(), 0), registry


@pytest.fixture
def shard(ensemble: LocalEnsemble) -> ShardRegistry:
    shard, _ = session(ensemble)
    shard.found_cluster(ID)
    shard.found_shard(SETTINGS)
    return shard


def led(shard: ShardRegistry, master: int = 0) -> Proposal:
    """Founds the state with all replicas, and lets one lead the first epoch. Returns its proposal."""
    members = [living(replica) for replica in SETTINGS.replicas]
    for each in members:
        shard.register(each)
    assert shard.found_state(members)
    view = shard.view()
    assert view is not None
    proposal = Proposal(view.state.led_by(members[master].identity, members[master].nonce), view.version)
    assert shard.propose(proposal, members[master]) is ProposalOutcome.DONE
    return proposal


# --- Founding ---


def test_a_cluster_is_founded_once(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    other, _ = session(ensemble)

    assert other.found_cluster("another id") == ID
    assert not other.found_shard(replace(SETTINGS, min_insync=1))
    assert other.settings() == SETTINGS


def test_a_cluster_of_another_version_is_refused(shard: ShardRegistry) -> None:
    from warren.registry.registry import Set

    shard.registry.write([Set(shard.paths.cluster, b'{"version":2,"id":"x"}')])

    with pytest.raises(MalformedState, match="version 1 only"):
        shard.cluster_id()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (ShardSettings(replicas=(0, 1), min_insync=3), "expected 1 to 2"),
        (ShardSettings(replicas=(0, 0), min_insync=1), "different numbers"),
        (ShardSettings(replicas=(0, 16), min_insync=1), "from 0 to 15"),
        (ShardSettings(replicas=(), min_insync=1), "at least one replica"),
        (ShardSettings(replicas=(0,), observers=(0,), min_insync=1), "different numbers"),
    ],
)
def test_settings_that_no_shard_can_have_are_refused(settings: ShardSettings, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        settings.check()


def test_a_state_is_founded_only_by_processes_that_live(shard: ShardRegistry) -> None:
    shard.register(living(0))

    assert not shard.found_state([living(0), living(1)])
    assert shard.view() is None
    assert shard.found_state([living(0)])


def test_enough_empty_replicas_found_a_shard_together() -> None:
    there = {0: living(0), 2: living(2)}

    assert founders(SETTINGS, there, is_all_awaited=True) == ()
    assert founders(SETTINGS, there, is_all_awaited=False) == [there[0], there[2]]
    assert founders(SETTINGS, {0: there[0]}, is_all_awaited=False) == ()


def test_a_replica_with_a_store_founds_the_shard_alone() -> None:
    there = {each: living(each, is_empty=each != 1) for each in SETTINGS.replicas}

    assert founders(SETTINGS, there, is_all_awaited=True) == [there[1]]


def test_two_stores_or_an_epoch_that_was_seen_found_nothing() -> None:
    with pytest.raises(WrongCluster, match="have different stores"):
        founders(SETTINGS, {each: living(each, is_empty=False) for each in (0, 1)}, is_all_awaited=False)
    with pytest.raises(WrongCluster, match="the registry lost its data"):
        founders(SETTINGS, {0: living(0, epoch=4)}, is_all_awaited=False)


# --- The state ---


def test_a_state_is_changed_by_compare_and_set(shard: ShardRegistry) -> None:
    proposal = led(shard)

    view = shard.view()

    assert view is not None
    assert view.state == proposal.state
    assert view.is_master_alive
    assert shard.propose(proposal, None) is ProposalOutcome.REFUSED


def test_a_candidate_without_its_node_does_not_win(shard: ShardRegistry) -> None:
    proposal = led(shard)
    view = shard.view()
    assert view is not None
    candidate = living(1)
    shard.unregister(1, candidate.nonce)

    next_one = Proposal(proposal.state.led_by(candidate.identity, candidate.nonce), view.version)

    assert shard.propose(next_one, candidate) is ProposalOutcome.REFUSED


def test_a_lost_answer_is_an_unknown_outcome(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    led(shard)
    other, registry = session(ensemble)
    view = other.view()
    assert view is not None
    ensemble.plan(registry, Fault.LOST_AFTER)

    assert other.propose(Proposal(view.state, view.version), None) is ProposalOutcome.UNKNOWN


def test_the_death_of_a_master_is_noted_by_its_parent_only(shard: ShardRegistry) -> None:
    led(shard)

    shard.unregister(0, "another process")
    view = shard.view()
    assert view is not None
    assert view.is_master_alive
    assert view.dead is None
    shard.unregister(0, living(0).nonce)

    view = shard.view()
    assert view is not None
    assert not view.is_master_alive
    assert view.dead == 1


def test_a_slave_that_dies_ends_no_epoch(shard: ShardRegistry) -> None:
    led(shard)

    shard.unregister(1, living(1).nonce)

    view = shard.view()
    assert view is not None
    assert (sorted(view.nodes), view.dead) == ([0, 2], None)


def test_unreached_is_noted_and_cleared(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    led(shard)
    for replica in (1, 2):
        shard.note_unreached(replica, 1)
        shard.note_unreached(replica, 1)
    view = shard.view()
    assert view is not None
    assert view.is_master_unreached(2)

    shard.clear_unreached(2)

    view = shard.view()
    assert view is not None
    assert view.unreached == {1: 1}


# --- Processes ---


def test_a_later_process_of_the_same_directory_takes_the_place_of_its_node(
    ensemble: LocalEnsemble, shard: ShardRegistry
) -> None:
    other, _ = session(ensemble)
    shard.register(living(0))

    assert other.register(living(0, nonce="later")) is None

    other.view()
    assert other.living[0].nonce == "later"


def test_another_directory_does_not_get_the_place(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    other, _ = session(ensemble)
    shard.register(living(0))

    assert other.register(living(0, nonce="twin", disk="another")) == living(0)
    assert shard.register(living(0)) is None


def test_a_node_ends_with_its_session_and_changes_are_watched(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    other, registry = session(ensemble)
    changes: list[str] = []
    other.register(living(1))
    shard.watch(lambda: changes.append("changed"))
    changes.clear()

    registry.close()

    assert changes
    shard.view()
    assert shard.living == {}


# --- Changes by an admin ---


def test_replicas_are_added_and_removed(shard: ShardRegistry) -> None:
    registry = shard.registry
    led(shard)

    added = add_replica(registry, "/warren", 0, 3, is_observer=True)
    assert (added.replicas, added.observers) == ((0, 1, 2), (3,))
    with pytest.raises(BadInput, match="has replica 3 already"):
        add_replica(registry, "/warren", 0, 3, is_observer=False)
    with pytest.raises(BadInput, match="let it hand over first"):
        remove_replica(registry, "/warren", 0, 0, None)
    removed = remove_replica(registry, "/warren", 0, 2, None)

    assert (removed.replicas, removed.observers) == ((0, 1), (3,))
    with pytest.raises(BadInput, match="min_insync 2: expected 1 to 1"):
        remove_replica(registry, "/warren", 0, 1, None)


def test_an_unclean_election_needs_a_shard_without_a_master(shard: ShardRegistry) -> None:
    registry = shard.registry
    led(shard)
    with pytest.raises(BadInput, match="has a master"):
        elect_uncleanly(registry, "/warren", 0, 1)
    shard.unregister(0, living(0).nonce)
    with pytest.raises(BadInput, match="does not run"):
        elect_uncleanly(registry, "/warren", 0, 0)

    state = elect_uncleanly(registry, "/warren", 0, 1)

    assert (state.epoch, state.master, state.insync) == (1, None, frozenset([living(1).identity]))


def test_the_overview_names_roles_and_faults(shard: ShardRegistry) -> None:
    registry = shard.registry
    assert overview(registry, "/warren")[0].fault.startswith("it has no in-sync set yet")
    led(shard)
    assert overview(registry, "/warren")[0].fault == ""

    shard.unregister(2, living(2).nonce)
    row = overview(registry, "/warren")[0]

    assert [row.role(each) for each in (0, 1, 2)] == ["master", "in sync", "gone"]
    assert row.fault == "replicas [2] are not in sync"
    with pytest.raises(WrongCluster, match="there is no cluster"):
        overview(registry, "/elsewhere")


# --- MetaMorphosis ---


def test_old_clients_find_master_slaves_and_topics(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    other, registry = session(ensemble)

    shard.publish(living(0), "master", "0-m", {"orders": 2})
    other.publish(living(1), "slave1", "0-s1", {"orders": 2})

    read = {
        path: shard.registry.read(f"/warren/brokers/{path}")
        for path in ("ids/0", "ids/0/master", "ids/0/slave1", "topics/orders/0-m", "topics-pub/orders/0-m")
    }
    assert {path: node.data if node is not None else None for path, node in read.items()} == {
        "ids/0": b"meta://127.0.0.1:9092",
        "ids/0/master": b"meta://127.0.0.1:9092",
        "ids/0/slave1": b"meta://127.0.0.1:9093",
        "topics/orders/0-m": b"2",
        "topics-pub/orders/0-m": b'{"numParts":2,"broker":"0-m"}',
    }
    assert shard.registry.children("/warren/brokers/topics-sub/orders") == ["0-m", "0-s1"]
    assert shard.registry.children("/warren/brokers/topics-pub/orders") == ["0-m"]
    registry.close()
    assert shard.registry.children("/warren/brokers/topics-sub/orders") == ["0-m"]


def test_a_topic_that_is_deleted_is_not_published_any_more(shard: ShardRegistry) -> None:
    shard.publish(living(0), "master", "0-m", {"orders": 2, "bills": 1})

    shard.publish(living(0), "master", "0-m", {"orders": 4})

    assert shard.registry.children("/warren/brokers/topics/bills") == []
    node = shard.registry.read("/warren/brokers/topics/orders/0-m")
    assert node is not None
    assert node.data == b"4"


def publish_all(shard: ShardRegistry, replica: int, role: str, broker: str, topics: dict[str, int]) -> int:
    """Publishes until all is published, and returns in how many steps."""
    return next(step for step in count(1) if shard.publish(living(replica), role, broker, topics))


def published(shard: ShardRegistry, broker: str) -> set[str]:
    """Returns the topics that have a node of this broker in every tree that the master writes."""
    registry = shard.registry
    return {
        topic
        for topic in registry.children("/warren/brokers/topics")
        if all(
            broker in registry.children(f"/warren/brokers/{tree}/{topic}")
            for tree in ("topics", "topics-sub", "topics-pub")
        )
    }


def test_a_thousand_topics_are_published_in_steps_of_a_few_calls(
    shard: ShardRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {f"orders-{number}": 2 for number in range(1000)}
    calls = Counter[str]()
    for name in ("read", "children", "write"):
        monkeypatch.setattr(shard.registry, name, counted(getattr(shard.registry, name), calls))

    steps = publish_all(shard, 0, "master", "0-m", topics)

    assert steps == ceil((3 * len(topics) + 1) / PUBLISHED_MAX)
    assert calls.total() < 30 * steps
    assert published(shard, "0-m") == {*topics}
    calls.clear()
    assert shard.publish(living(0), "master", "0-m", topics)
    assert calls.total() == 0


def counted(function: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        calls[function.__name__] += 1
        return function(*arguments)

    return call


@pytest.mark.parametrize("left", [{"orders": 2, "bills": 1}, {"orders": 2}, {"orders": 2, "carts": 1}])
def test_nodes_that_a_dead_process_left_are_replaced(
    ensemble: LocalEnsemble, shard: ShardRegistry, left: dict[str, int]
) -> None:
    dead, registry = session(ensemble)
    publish_all(dead, 0, "master", "0-m", left)

    publish_all(shard, 0, "master", "0-m", {"orders": 2, "bills": 1})

    registry.close()
    assert published(shard, "0-m") == {"orders", "bills"}


def test_a_published_node_that_is_gone_already_does_not_stop_the_others(
    ensemble: LocalEnsemble, shard: ShardRegistry
) -> None:
    publish_all(shard, 0, "master", "0-m", {"orders": 2, "bills": 1})
    assert shard.registry.write([Delete("/warren/brokers/topics/bills/0-m")]).is_done

    publish_all(shard, 0, "master", "0-m", {"orders": 3, "carts": 1})

    assert published(shard, "0-m") == {"orders", "carts"}
    assert shard.registry.children("/warren/brokers/topics-sub/bills") == []


def test_nodes_that_cannot_be_written_are_left_for_the_next_call(
    shard: ShardRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {f"orders-{number}": 2 for number in range(PUBLISHED_MAX)}
    with monkeypatch.context() as patch:
        patch.setattr(shard.registry, "write", lambda changes, within_s=None: refused(0, Reason.MISSING))
        assert shard.publish(living(0), "master", "0-m", topics)

    publish_all(shard, 0, "master", "0-m", topics)

    assert published(shard, "0-m") == {*topics}


def test_nodes_are_published_again_in_a_new_session(ensemble: LocalEnsemble, shard: ShardRegistry) -> None:
    publish_all(shard, 0, "master", "0-m", {"orders": 2})
    registry = shard.registry
    assert isinstance(registry, LocalRegistry)
    for path in ("topics", "topics-sub", "topics-pub"):
        assert registry.write([Delete(f"/warren/brokers/{path}/orders/0-m")]).is_done

    shard.forget_published()
    publish_all(shard, 0, "master", "0-m", {"orders": 2})

    assert published(shard, "0-m") == {"orders"}


def test_nodes_of_kafka_are_numbered_by_shard() -> None:
    assert [node_id(0, 2), node_id(1, 0), node_id(3, 15)] == [2, 16, 63]
