"""A consumer group: who is fenced, who is given what and when, and random lives: no partition has two owners."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.broker.groups.assignors import ASSIGNORS, Partition, SeenTopic
from warren.broker.groups.consumer import ConsumerGroup, ConsumerState
from warren.broker.groups.consumer_members import Beat, OwnedPlace, Told, places
from warren.broker.kafka_errors import Code
from warren.config import GROUP_CONSUMER_SESSION_S, GROUP_HEARTBEAT_S

REBALANCE_S = 60.0
ORDERS = SeenTopic(b"o" * 16, 4)


class Scene:
    """A group that sees one topic of four partitions, and the time that it goes by."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.group = ConsumerGroup("readers", lambda: self.now_s)
        self.group.see({"orders": ORDERS}, {})

    def join(self, id: str, **said: Any) -> Told:
        return self.beat(id, 0, names=frozenset({"orders"}), rebalance_timeout_s=REBALANCE_S, **said)

    def beat(self, id: str, epoch: int, **said: Any) -> Told:
        # A group that nobody is in has forgotten what it saw.
        self.group.see({"orders": ORDERS}, {})
        return self.group.beat(Beat(member_id=id, epoch=epoch, **said))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.group.tick()


def numbers(told: Told) -> list[int] | None:
    return None if told.assignment is None else sorted(each.number for each in told.assignment)


def owning(*partitions: int) -> frozenset[OwnedPlace]:
    return frozenset(OwnedPlace(ORDERS.id, number) for number in partitions)


# --- Changing over ---


def test_who_is_alone_is_given_everything_at_once() -> None:
    told = Scene().join("a")

    assert (told.error, numbers(told)) == (Code.NONE, [0, 1, 2, 3])


def test_a_partition_is_given_to_its_new_owner_when_the_old_one_has_given_it_up() -> None:
    scene = Scene()
    before = scene.join("a")

    came = scene.join("b")
    asked = scene.beat("a", before.epoch)
    still_nothing = scene.beat("b", came.epoch)
    done = scene.beat("a", before.epoch, owned=owning(0, 1))
    given = scene.beat("b", came.epoch)

    assert numbers(came) == []
    assert (asked.epoch, numbers(asked)) == (before.epoch, [0, 1])
    assert numbers(still_nothing) is None
    assert (done.epoch, given.epoch) == (came.epoch, came.epoch)
    assert numbers(given) == [2, 3]
    assert scene.group.state is ConsumerState.STABLE


def test_what_a_member_that_leaves_owned_is_free_at_once() -> None:
    scene = Scene()
    scene.join("a")
    scene.join("b")

    left = scene.beat("a", -1)
    told = scene.beat("b", 2)

    assert (left.error, left.epoch) == (Code.NONE, -1)
    assert numbers(told) == [0, 1, 2, 3]


def test_who_falls_silent_is_none_any_more() -> None:
    scene = Scene()
    told = scene.join("a")

    scene.wait(GROUP_CONSUMER_SESSION_S)

    assert scene.beat("a", told.epoch).error is Code.UNKNOWN_MEMBER_ID
    assert scene.group.wake_s() is None


def test_who_gives_nothing_up_in_its_time_is_none_any_more() -> None:
    scene = Scene()
    first = scene.join("a")
    second = scene.join("b")

    for _ in range(int(REBALANCE_S) + 2):
        scene.beat("a", first.epoch)
        told = scene.beat("b", second.epoch)
        second = told if told.error is Code.NONE else second
        scene.wait(GROUP_HEARTBEAT_S)

    assert list(scene.group.members) == ["b"]
    assert numbers(scene.join("b")) == [0, 1, 2, 3]


# --- Fencing ---


def test_epochs_that_are_not_the_members_own_are_fenced() -> None:
    scene = Scene()
    scene.join("a")
    told = scene.join("b")

    assert scene.beat("b", told.epoch + 1).error is Code.FENCED_MEMBER_EPOCH
    assert scene.beat("b", told.epoch - 1).error is Code.FENCED_MEMBER_EPOCH
    assert scene.beat("c", told.epoch).error is Code.UNKNOWN_MEMBER_ID


def test_who_did_not_hear_of_its_last_epoch_is_told_again() -> None:
    scene = Scene()
    first = scene.join("a")
    scene.join("b")
    scene.beat("a", first.epoch, owned=owning(0, 1, 2, 3))
    scene.beat("a", first.epoch, owned=owning(0, 1))

    again = scene.beat("a", first.epoch, owned=owning(0, 1), names=frozenset({"orders"}), rebalance_timeout_s=1.0)
    too_much = scene.beat("a", first.epoch, owned=owning(0, 1, 2))

    assert (again.error, again.epoch, numbers(again)) == (Code.NONE, first.epoch + 1, [0, 1])
    assert too_much.error is Code.FENCED_MEMBER_EPOCH


def test_commits_count_from_members_at_their_own_epoch() -> None:
    scene = Scene()
    told = scene.join("a")

    assert scene.group.check_commit("a", told.epoch) is Code.NONE
    assert scene.group.check_commit("a", told.epoch - 1) is Code.STALE_MEMBER_EPOCH
    assert scene.group.check_commit("b", told.epoch) is Code.UNKNOWN_MEMBER_ID


# --- Static members ---


def test_a_static_member_that_means_to_come_back_finds_what_it_owned_and_others_do_not_notice() -> None:
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


def test_the_name_of_an_instance_that_lives_is_not_given_to_another() -> None:
    scene = Scene()
    scene.join("a", instance_id="one")

    assert scene.join("b", instance_id="one").error is Code.UNRELEASED_INSTANCE_ID
    assert scene.beat("b", -1, instance_id="one").error is Code.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_none_any_more() -> None:
    scene = Scene()
    scene.join("a", instance_id="one")
    scene.join("b")
    scene.beat("a", -2, instance_id="one")

    for _ in range(int(GROUP_CONSUMER_SESSION_S / GROUP_HEARTBEAT_S)):
        told = scene.beat("b", scene.group.members["b"].epoch)
        scene.wait(GROUP_HEARTBEAT_S)
    told = scene.beat("b", scene.group.members["b"].epoch)

    assert numbers(told) == [0, 1, 2, 3]


# --- Sharing out ---

TOPICS = {"a": SeenTopic(b"a" * 16, 7), "b": SeenTopic(b"b" * 16, 4), "c": SeenTopic(b"c" * 16, 0)}
wants = st.dictionaries(st.sampled_from("mnopq"), st.frozensets(st.sampled_from(["a", "b", "c", "gone"])), min_size=1)


@given(assignor=st.sampled_from(sorted(ASSIGNORS)), before=wants, after=wants)
def test_each_partition_that_anybody_wants_is_shared_out_once_and_to_who_wants_it(
    assignor: str, before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]
) -> None:
    share_out = ASSIGNORS[assignor]

    shares = share_out(after, TOPICS, share_out(before, TOPICS, {}))

    wanted = frozenset[str]().union(*after.values()) & TOPICS.keys()
    every = [Partition(name, TOPICS[name].id, n) for name in wanted for n in range(TOPICS[name].partition_count)]
    assert sorted(chain(*shares.values())) == sorted(every)
    assert all(each.topic in after[member] for member, share in shares.items() for each in share)


@given(before=st.integers(1, 6), after=st.integers(1, 6))
def test_shares_differ_by_one_at_most_and_nobody_gives_up_more_than_balance_asks_for(before: int, after: int) -> None:
    old = ASSIGNORS["uniform"]({str(n): {"a", "b"} for n in range(before)}, TOPICS, {})

    new = ASSIGNORS["uniform"]({str(n): {"a", "b"} for n in range(after)}, TOPICS, old)

    sizes = sorted(map(len, new.values()))
    kept = sum(len(old[id] & new[id]) for id in old.keys() & new.keys())
    assert sizes[-1] - sizes[0] <= 1
    assert kept == sum(min(len(old[id]), len(new[id])) for id in old.keys() & new.keys())


def test_ranges_are_neighbours_and_the_same_in_topics_of_the_same_size() -> None:
    topics = {"a": SeenTopic(b"a" * 16, 5), "b": SeenTopic(b"b" * 16, 5)}

    shares = ASSIGNORS["range"]({"m": {"a", "b"}, "n": {"a", "b"}}, topics, {})

    told = {id: sorted((each.topic, each.number) for each in share) for id, share in shares.items()}
    assert told["m"] == [(name, number) for name in "ab" for number in (0, 1, 2)]
    assert told["n"] == [(name, number) for name in "ab" for number in (3, 4)]


# --- Random lives ---


class Client:
    """A member as it sees itself: what it owns, and what it was told last."""

    def __init__(self, id: str) -> None:
        self.id, self.epoch = id, 0
        self.owned: frozenset[OwnedPlace] = frozenset()
        self.told: frozenset[OwnedPlace] = frozenset()

    def hear(self, told: Told) -> None:
        if told.error is not Code.NONE:
            self.epoch, self.owned, self.told = 0, frozenset(), frozenset()
            return
        self.epoch = told.epoch
        if told.assignment is not None:
            self.told = places(told.assignment)


class Lives(RuleBasedStateMachine):
    """Clients come, are heard of, do what they are told or not yet, miss answers, fall silent and leave."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.clients: dict[str, Client] = {}
        self.epoch = 0

    def _beat(self, client: Client, *, is_heard: bool = True) -> None:
        if client.epoch == 0:
            told = self.scene.join(client.id, owned=frozenset())
            client.owned = client.told = frozenset()
        else:
            everything = {"names": frozenset({"orders"}), "rebalance_timeout_s": REBALANCE_S}
            # While it is at doing what it was told, a client does not say what it owns.
            owned = client.owned if client.owned == client.told else None
            told = self.scene.beat(client.id, client.epoch, owned=owned, **everything)
        if is_heard:
            client.hear(told)

    @rule(id=st.sampled_from("abcd"), is_heard=st.booleans())
    def beat(self, id: str, is_heard: bool) -> None:
        self._beat(self.clients.setdefault(id, Client(id)), is_heard=is_heard)

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 3))
    def give_up(self, place: int) -> None:
        client = list(self.clients.values())[place % len(self.clients)]
        client.owned &= client.told

    @precondition(lambda self: self.clients)
    @rule(place=st.integers(0, 3))
    def take(self, place: int) -> None:
        client = list(self.clients.values())[place % len(self.clients)]
        client.owned = client.told

    @rule(id=st.sampled_from("abcd"))
    def leave(self, id: str) -> None:
        if self.clients.pop(id, None) is not None:
            self.scene.beat(id, -1)

    @rule(seconds=st.sampled_from([1.0, 5.0, REBALANCE_S]))
    def wait(self, seconds: float) -> None:
        self.scene.wait(seconds)
        for id in self.clients.keys() - self.scene.group.members.keys():
            # Whoever was silent for so long knows that it is none any more.
            self.clients[id] = Client(id)

    @rule()
    def come_to_rest(self) -> None:
        for _ in range(6):
            for client in self.clients.values():
                self._beat(client)
                client.owned = client.told
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


Lives.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
