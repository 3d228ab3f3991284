"""A consumer group: who is fenced, who is assigned what and when, and random lives: no partition has two owners."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.assignors import ASSIGNORS, AssignedPartition, TopicSnapshot
from warren.broker.kafka.groups.consumer import ConsumerGroup, ConsumerState
from warren.broker.kafka.groups.consumer_members import Beat, BeatReply, OwnedPlace, places
from warren.broker.kafka.groups.consumer_requests import GROUP_HEARTBEAT_S
from warren.broker.kafka.groups.limits import GROUP_CONSUMER_SESSION_S

REBALANCE_S = 60.0
ORDERS = TopicSnapshot(b"o" * 16, 4)


class Scene:
    """A group that has one topic of four partitions, and its clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.group = ConsumerGroup("readers", lambda: self.now_s)
        self.group.update_topics({"orders": ORDERS}, {})

    def join(self, id: str, **fields: Any) -> BeatReply:
        return self.beat(id, 0, names=frozenset({"orders"}), rebalance_timeout_s=REBALANCE_S, **fields)

    def beat(self, id: str, epoch: int, **fields: Any) -> BeatReply:
        # An empty group has dropped its state.
        self.group.update_topics({"orders": ORDERS}, {})
        return self.group.beat(Beat(member_id=id, epoch=epoch, **fields))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.group.tick()


def numbers(answer: BeatReply) -> list[int] | None:
    return None if answer.assignment is None else sorted(each.number for each in answer.assignment)


def owning(*partitions: int) -> frozenset[OwnedPlace]:
    return frozenset(OwnedPlace(ORDERS.id, number) for number in partitions)


# --- Changing over ---


def test_a_single_member_gets_all_partitions_immediately() -> None:
    answer = Scene().join("a")

    assert (answer.error, numbers(answer)) == (Code.NONE, [0, 1, 2, 3])


def test_a_partition_goes_to_its_new_owner_after_the_old_one_has_revoked_it() -> None:
    scene = Scene()
    before = scene.join("a")

    came = scene.join("b")
    revoking = scene.beat("a", before.epoch)
    still_nothing = scene.beat("b", came.epoch)
    revoked = scene.beat("a", before.epoch, owned=owning(0, 1))
    receiving = scene.beat("b", came.epoch)

    assert numbers(came) == []
    assert (revoking.epoch, numbers(revoking)) == (before.epoch, [0, 1])
    assert numbers(still_nothing) is None
    assert (revoked.epoch, receiving.epoch) == (came.epoch, came.epoch)
    assert numbers(receiving) == [2, 3]
    assert scene.group.state is ConsumerState.STABLE


def test_the_partitions_of_a_member_that_leaves_are_free_immediately() -> None:
    scene = Scene()
    scene.join("a")
    scene.join("b")

    leaving = scene.beat("a", -1)
    answer = scene.beat("b", 2)

    assert (leaving.error, leaving.epoch) == (Code.NONE, -1)
    assert numbers(answer) == [0, 1, 2, 3]


def test_a_silent_member_of_a_consumer_group_is_removed() -> None:
    scene = Scene()
    answer = scene.join("a")

    scene.wait(GROUP_CONSUMER_SESSION_S)

    assert scene.beat("a", answer.epoch).error is Code.UNKNOWN_MEMBER_ID
    assert scene.group.wake_s() is None


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    scene = Scene()
    first = scene.join("a")
    second = scene.join("b")

    for _ in range(int(REBALANCE_S) + 2):
        scene.beat("a", first.epoch)
        answer = scene.beat("b", second.epoch)
        second = answer if answer.error is Code.NONE else second
        scene.wait(GROUP_HEARTBEAT_S)

    assert list(scene.group.members) == ["b"]
    assert numbers(scene.join("b")) == [0, 1, 2, 3]


# --- Fencing ---


def test_epochs_that_are_not_the_members_own_are_fenced() -> None:
    scene = Scene()
    scene.join("a")
    answer = scene.join("b")

    assert scene.beat("b", answer.epoch + 1).error is Code.FENCED_MEMBER_EPOCH
    assert scene.beat("b", answer.epoch - 1).error is Code.FENCED_MEMBER_EPOCH
    assert scene.beat("c", answer.epoch).error is Code.UNKNOWN_MEMBER_ID


def test_a_member_that_repeats_its_last_epoch_gets_the_same_answer() -> None:
    scene = Scene()
    first = scene.join("a")
    scene.join("b")
    scene.beat("a", first.epoch, owned=owning(0, 1, 2, 3))
    scene.beat("a", first.epoch, owned=owning(0, 1))

    again = scene.beat("a", first.epoch, owned=owning(0, 1), names=frozenset({"orders"}), rebalance_timeout_s=1.0)
    too_much = scene.beat("a", first.epoch, owned=owning(0, 1, 2))

    assert (again.error, again.epoch, numbers(again)) == (Code.NONE, first.epoch + 1, [0, 1])
    assert too_much.error is Code.FENCED_MEMBER_EPOCH


def test_only_members_at_their_current_epoch_may_commit() -> None:
    scene = Scene()
    answer = scene.join("a")

    assert scene.group.check_commit("a", answer.epoch) is Code.NONE
    assert scene.group.check_commit("a", answer.epoch - 1) is Code.STALE_MEMBER_EPOCH
    assert scene.group.check_commit("b", answer.epoch) is Code.UNKNOWN_MEMBER_ID


# --- Static members ---


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions() -> None:
    scene = Scene()
    scene.join("a", instance_id="one")
    scene.join("b", instance_id="two")
    scene.beat("a", 1, instance_id="one")
    scene.beat("a", 1, instance_id="one", owned=owning(0, 1))

    paused = scene.beat("a", -2, instance_id="one")
    other = scene.beat("b", 2, instance_id="two")
    back = scene.join("c", instance_id="one")

    assert (paused.error, paused.epoch) == (Code.NONE, -2)
    assert numbers(other) == [2, 3]
    assert (back.error, back.epoch, numbers(back)) == (Code.NONE, 2, [0, 1])
    assert scene.beat("a", 2, instance_id="one").error is Code.FENCED_INSTANCE_ID


def test_the_name_of_a_living_instance_is_not_assigned_to_another() -> None:
    scene = Scene()
    scene.join("a", instance_id="one")

    assert scene.join("b", instance_id="one").error is Code.UNRELEASED_INSTANCE_ID
    assert scene.beat("b", -1, instance_id="one").error is Code.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_return_is_removed() -> None:
    scene = Scene()
    scene.join("a", instance_id="one")
    scene.join("b")
    scene.beat("a", -2, instance_id="one")

    for _ in range(int(GROUP_CONSUMER_SESSION_S / GROUP_HEARTBEAT_S)):
        answer = scene.beat("b", scene.group.members["b"].epoch)
        scene.wait(GROUP_HEARTBEAT_S)
    answer = scene.beat("b", scene.group.members["b"].epoch)

    assert numbers(answer) == [0, 1, 2, 3]


# --- Sharing out ---

TOPICS = {"a": TopicSnapshot(b"a" * 16, 7), "b": TopicSnapshot(b"b" * 16, 4), "c": TopicSnapshot(b"c" * 16, 0)}
wants = st.dictionaries(st.sampled_from("mnopq"), st.frozensets(st.sampled_from(["a", "b", "c", "gone"])), min_size=1)


@given(assignor=st.sampled_from(sorted(ASSIGNORS)), before=wants, after=wants)
def test_each_subscribed_partition_is_assigned_once_and_to_a_subscriber(
    assignor: str, before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]
) -> None:
    share_out = ASSIGNORS[assignor]

    shares = share_out(after, TOPICS, share_out(before, TOPICS, {}))

    subscribed = frozenset[str]().union(*after.values()) & TOPICS.keys()
    every = [
        AssignedPartition(name, TOPICS[name].id, n) for name in subscribed for n in range(TOPICS[name].partition_count)
    ]
    assert sorted(chain(*shares.values())) == sorted(every)
    assert all(each.topic in after[member] for member, share in shares.items() for each in share)


@given(before=st.integers(1, 6), after=st.integers(1, 6))
def test_assignments_differ_by_one_at_most_and_move_as_few_partitions_as_balance_needs(before: int, after: int) -> None:
    old = ASSIGNORS["uniform"]({str(n): {"a", "b"} for n in range(before)}, TOPICS, {})

    new = ASSIGNORS["uniform"]({str(n): {"a", "b"} for n in range(after)}, TOPICS, old)

    sizes = sorted(map(len, new.values()))
    unmoved_count = sum(len(old[id] & new[id]) for id in old.keys() & new.keys())
    assert sizes[-1] - sizes[0] <= 1
    assert unmoved_count == sum(min(len(old[id]), len(new[id])) for id in old.keys() & new.keys())


def test_ranges_are_neighbours_and_the_same_in_topics_of_the_same_size() -> None:
    topics = {"a": TopicSnapshot(b"a" * 16, 5), "b": TopicSnapshot(b"b" * 16, 5)}

    shares = ASSIGNORS["range"]({"m": {"a", "b"}, "n": {"a", "b"}}, topics, {})

    answer = {id: sorted((each.topic, each.number) for each in share) for id, share in shares.items()}
    assert answer["m"] == [(name, number) for name in "ab" for number in (0, 1, 2)]
    assert answer["n"] == [(name, number) for name in "ab" for number in (3, 4)]


# --- Random lives ---


class Client:
    """A member from its own point of view: its partitions and the last answer."""

    def __init__(self, id: str) -> None:
        self.id, self.epoch = id, 0
        self.owned: frozenset[OwnedPlace] = frozenset()
        self.answer: frozenset[OwnedPlace] = frozenset()

    def hear(self, answer: BeatReply) -> None:
        if answer.error is not Code.NONE:
            self.epoch, self.owned, self.answer = 0, frozenset(), frozenset()
            return
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.answer = places(answer.assignment)


class Lives(RuleBasedStateMachine):
    """Clients join, send heartbeats, follow their assignment or not yet, miss answers, fall silent and leave."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.clients: dict[str, Client] = {}
        self.epoch = 0

    def _beat(self, client: Client, *, is_heard: bool = True) -> None:
        if client.epoch == 0:
            answer = self.scene.join(client.id, owned=frozenset())
            client.owned = client.answer = frozenset()
        else:
            everything = {"names": frozenset({"orders"}), "rebalance_timeout_s": REBALANCE_S}
            # While it changes its partitions, a client does not report them.
            owned = client.owned if client.owned == client.answer else None
            answer = self.scene.beat(client.id, client.epoch, owned=owned, **everything)
        if is_heard:
            client.hear(answer)

    @rule(id=st.sampled_from("abcd"), is_heard=st.booleans())
    def beat(self, id: str, is_heard: bool) -> None:
        self._beat(self.clients.setdefault(id, Client(id)), is_heard=is_heard)

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 3))
    def give_up(self, place: int) -> None:
        client = list(self.clients.values())[place % len(self.clients)]
        client.owned &= client.answer

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 3))
    def take(self, place: int) -> None:
        client = list(self.clients.values())[place % len(self.clients)]
        client.owned = client.answer

    @rule(id=st.sampled_from("abcd"))
    def leave(self, id: str) -> None:
        if self.clients.pop(id, None) is not None:
            self.scene.beat(id, -1)

    @rule(seconds=st.sampled_from([1.0, 5.0, REBALANCE_S]))
    def wait(self, seconds: float) -> None:
        self.scene.wait(seconds)
        for id in self.clients.keys() - self.scene.group.members.keys():
            # A client that was silent for that long knows that it was removed.
            self.clients[id] = Client(id)

    @rule()
    def come_to_rest(self) -> None:
        for _ in range(6):
            for client in self.clients.values():
                self._beat(client)
                client.owned = client.answer
        if self.clients:
            assert sorted(chain(*(client.owned for client in self.clients.values()))) == sorted(owning(0, 1, 2, 3))

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = list(chain(*(client.owned for client in self.clients.values())))
        assert len(owned) == len(set(owned))

    @invariant()
    def the_epoch_grows(self) -> None:
        assert self.scene.group.epoch >= self.epoch
        self.epoch = self.scene.group.epoch


Lives.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
