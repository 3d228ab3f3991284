"""A classic group: every step of its table, what each kind of member is told, and random lives of whole groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.broker.groups.classic import TRANSITIONS, ClassicGroup, Event, State
from warren.broker.groups.members import Claim, Joined, Joining, Protocol, Synced, Syncing
from warren.broker.kafka_errors import Code
from warren.config import GROUP_FIRST_JOIN_S, GROUP_MEMBERS_MAX

SESSION_S = 10.0
REBALANCE_S = 60.0
T = TypeVar("T")
WAIT_S_MAX = 2 * REBALANCE_S + SESSION_S


class Scene:
    """A group, the time that it goes by, and what its members were told."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.group = ClassicGroup("readers", lambda: self.now_s)
        self.on_told: Callable[[Any], None] = lambda answer: None

    def join(self, id: str = "", **said: Any) -> list[Joined]:
        told: list[Joined] = []
        self.group.join(joining(id, **said), lambda joined: self._tell(told, joined))
        return told

    def sync(
        self, id: str, generation: int, shares: dict[str, bytes] | None = None, instance: str | None = None
    ) -> list[Synced]:
        told: list[Synced] = []
        said = Syncing(claim=Claim(id, instance, generation), assignments=shares or {})
        self.group.sync(said, lambda synced: self._tell(told, synced))
        return told

    def _tell(self, told: list[T], answer: T) -> None:
        told.append(answer)
        self.on_told(answer)

    def beat(self, id: str, generation: int, instance: str | None = None) -> Code:
        return self.group.heartbeat(Claim(id, instance, generation))

    def wait(self, seconds: float) -> None:
        """Time passes, and whatever is due on the way happens when it is."""
        end_s = self.now_s + seconds
        while (wake_s := self.group.wake_s()) is not None and wake_s <= end_s:
            self.now_s = max(self.now_s, wake_s)
            self.group.tick()
            later_s = self.group.wake_s()
            assert later_s is None or later_s > self.now_s, "it would be woken again and again"
        self.now_s = end_s

    def stable(self, *instances: str | None, protocols: Sequence[str] = ("range",)) -> list[str]:
        """The ids of members that share the group already, the leader first."""
        told = [self.join(instance=instance, protocols=protocols) for instance in instances]
        self.wait(GROUP_FIRST_JOIN_S)
        ids = [each.member_id for [each] in told]
        for id, instance in reversed(list(zip(ids, instances, strict=True))):
            self.sync(id, self.group.generation, {each: each.encode() for each in ids}, instance)
        assert self.group.state is State.STABLE
        return ids


def joining(
    id: str = "",
    *,
    instance: str | None = None,
    protocols: Sequence[str] = ("range",),
    metadata: bytes = b"orders",
    protocol_type: str = "consumer",
    needs_id_first: bool = False,
    can_skip: bool = True,
) -> Joining:
    return Joining(
        member_id=id,
        instance_id=instance,
        client_id="client",
        client_host="127.0.0.1",
        session_timeout_s=SESSION_S,
        rebalance_timeout_s=REBALANCE_S,
        protocol_type=protocol_type,
        protocols=[Protocol(name, metadata) for name in protocols],
        needs_id_first=needs_id_first,
        can_skip_assignment=can_skip,
    )


# --- The table ---


def bring_to(scene: Scene, state: State) -> None:
    if state is State.PREPARING:
        scene.join()
    elif state is State.COMPLETING:
        scene.join()
        scene.wait(GROUP_FIRST_JOIN_S)
    elif state is State.STABLE:
        scene.stable(None)
    assert scene.group.state is state


def let_all_join(scene: Scene) -> None:
    scene.wait(GROUP_FIRST_JOIN_S)


def let_all_leave(scene: Scene) -> None:
    for id in list(scene.group.members):
        scene.group.leave(id)


def let_the_leader_share_out(scene: Scene) -> None:
    scene.sync(scene.group.leader, scene.group.generation)


def let_somebody_join(scene: Scene) -> None:
    scene.join()


HAPPENINGS: dict[Event, Callable[[Scene], None]] = {
    Event.MEMBERS_CHANGE: let_somebody_join,
    Event.ALL_JOINED: let_all_join,
    Event.ALL_GONE: let_all_leave,
    Event.SHARED_OUT: let_the_leader_share_out,
}
LIVING = [state for state in State if state is not State.DEAD]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(LIVING, Event)), ids=lambda each: each.name)
def test_what_happens_takes_the_group_where_the_table_says_and_nowhere_else(state: State, event: Event) -> None:
    scene = Scene()
    bring_to(scene, state)

    HAPPENINGS[event](scene)

    assert scene.group.state is TRANSITIONS.get((state, event), state)


# --- Joining ---


def test_whoever_comes_without_an_id_is_given_one_first_and_joins_with_it() -> None:
    scene = Scene()

    [first] = scene.join(needs_id_first=True)
    told = scene.join(first.member_id, needs_id_first=True)
    scene.wait(GROUP_FIRST_JOIN_S)

    assert first.error is Code.MEMBER_ID_REQUIRED
    assert [(each.error, each.member_id, each.generation) for each in told] == [(Code.NONE, first.member_id, 1)]


def test_an_id_that_nobody_joins_with_is_forgotten_and_waited_for_no_longer() -> None:
    scene = Scene()
    [pending] = scene.join(needs_id_first=True)

    told = scene.join()
    scene.wait(GROUP_FIRST_JOIN_S)
    assert told == []
    scene.wait(SESSION_S)
    [late] = scene.join(pending.member_id)

    assert [each.error for each in told] == [Code.NONE]
    assert late.error is Code.UNKNOWN_MEMBER_ID


def test_members_that_come_together_share_one_generation_and_one_leader_who_hears_of_all() -> None:
    scene = Scene()

    told = [scene.join(), scene.join(), scene.join()]
    scene.wait(GROUP_FIRST_JOIN_S)

    joined = [each for [each] in told]
    assert {each.generation for each in joined} == {1}
    assert {each.leader for each in joined} == {joined[0].member_id}
    assert [len(each.members) for each in joined] == [3, 0, 0]


def test_a_follower_that_joins_again_unchanged_disturbs_nobody_and_a_leader_does() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    [told] = scene.join(follower)
    assert (told.error, told.generation, scene.group.state) == (Code.NONE, 1, State.STABLE)
    waiting = scene.join(leader)

    assert waiting == []
    assert scene.group.state is State.PREPARING
    assert scene.beat(follower, 1) is Code.REBALANCE_IN_PROGRESS


def test_a_follower_that_wants_something_else_makes_all_join_again() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    told = scene.join(follower, metadata=b"orders, invoices")
    told += scene.join(leader)

    assert [each.generation for each in told] == [2, 2]


def test_who_did_not_hear_that_it_joined_is_told_again() -> None:
    scene = Scene()
    told = [scene.join(), scene.join()]
    scene.wait(GROUP_FIRST_JOIN_S)

    [again] = scene.join(told[1][0].member_id)

    assert again == told[1][0]
    assert scene.group.state is State.COMPLETING


def test_who_asks_twice_is_answered_twice() -> None:
    scene = Scene()
    [id] = scene.stable(None)
    other = scene.join()

    first, second = scene.join(id), scene.join(id)
    scene.wait(0)

    assert [each.error for each in first] == [Code.NONE]
    assert [each.error for each in second] == [Code.NONE]
    assert [each.error for each in other] == [Code.NONE]


def test_all_use_the_protocol_that_all_know_and_most_prefer() -> None:
    scene = Scene()

    told = scene.join(protocols=["sticky", "range", "robin"])
    scene.join(protocols=["range", "robin"])
    scene.join(protocols=["robin", "range"])
    scene.wait(GROUP_FIRST_JOIN_S)

    assert told[0].protocol == "range"


@pytest.mark.parametrize("said", [{"protocols": ["other"]}, {"protocol_type": "connect"}, {"protocols": []}])
def test_who_knows_no_protocol_of_the_others_is_refused(said: dict[str, Any]) -> None:
    scene = Scene()
    scene.stable(None)

    [told] = scene.join(**said)

    assert told.error is Code.INCONSISTENT_GROUP_PROTOCOL
    assert scene.group.state is State.STABLE


def test_a_group_takes_so_many_members_and_ids_and_no_more() -> None:
    scene = Scene()
    for _ in range(GROUP_MEMBERS_MAX):
        scene.join(needs_id_first=True)

    [told] = scene.join(needs_id_first=True)

    assert told.error is Code.GROUP_MAX_SIZE_REACHED


def test_who_does_not_join_again_in_time_is_left_behind() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)
    told = scene.join(leader)
    while scene.now_s < 100 + REBALANCE_S:
        scene.beat(follower, 1)
        scene.wait(1)
    scene.wait(1)

    assert [(each.generation, len(each.members)) for each in told] == [(2, 1)]
    assert scene.beat(follower, 1) is Code.UNKNOWN_MEMBER_ID


def test_those_who_keep_coming_do_not_put_off_the_answer_of_those_who_wait() -> None:
    scene = Scene()
    leader, _silent = scene.stable(None, None)
    scene.group.members[_silent].deadline_s = 1e9
    told = scene.join(leader)

    for _ in range(70):
        scene.join()
        scene.wait(1)

    assert [each.error for each in told] == [Code.NONE]


# --- Sharing out ---


def test_followers_wait_for_the_leader_and_each_is_told_its_own_share() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))

    waiting = scene.sync(follower, 1)
    assert waiting == []
    told = scene.sync(leader, 1, {leader: b"even", follower: b"odd"})

    assert [each.assignment for each in told + waiting] == [b"even", b"odd"]


def _joined_together(scene: Scene, count: int) -> list[list[Joined]]:
    told = [scene.join() for _ in range(count)]
    scene.wait(GROUP_FIRST_JOIN_S)
    return told


def test_a_leader_that_does_not_share_out_in_time_is_none_any_more() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))
    waiting = scene.sync(follower, 1)

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(leader, 1)
        scene.wait(1)

    assert [each.error for each in waiting] == [Code.REBALANCE_IN_PROGRESS]
    assert list(scene.group.members) == [follower]


def test_a_follower_that_never_asks_for_its_share_is_none_any_more() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))
    scene.sync(leader, 1)

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(leader, 1)
        scene.beat(follower, 1)
        scene.wait(1)

    assert list(scene.group.members) == [leader]
    assert scene.group.state is State.PREPARING


def test_the_share_of_another_generation_or_protocol_is_refused() -> None:
    scene = Scene()
    [id] = scene.stable(None)
    told: list[Synced] = []

    stale = scene.sync(id, 0)
    scene.group.sync(Syncing(claim=Claim(id, None, 1), protocol="other", assignments={}), told.append)

    assert [each.error for each in stale + told] == [Code.ILLEGAL_GENERATION, Code.INCONSISTENT_GROUP_PROTOCOL]


# --- Staying and leaving ---


def test_silence_ends_a_membership_and_others_are_told_to_join_again() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    scene.wait(SESSION_S / 2)
    scene.beat(follower, 1)
    scene.wait(SESSION_S / 2)

    assert scene.beat(follower, 1) is Code.REBALANCE_IN_PROGRESS
    assert scene.beat(leader, 1) is Code.UNKNOWN_MEMBER_ID


def test_who_waits_need_not_be_heard_of() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)
    told = scene.join(leader)

    for _ in range(3):
        scene.wait(SESSION_S * 0.9)
        scene.beat(follower, 1)
    told += scene.join(follower)

    assert [each.error for each in told] == [Code.NONE, Code.NONE]


def test_when_all_are_gone_nothing_is_waited_for() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    assert scene.group.leave(leader) is Code.NONE
    assert scene.group.leave(follower) is Code.NONE

    assert scene.group.state is State.EMPTY
    assert scene.group.wake_s() is None
    assert scene.group.leave(leader) is Code.UNKNOWN_MEMBER_ID


def test_commits_count_from_members_of_the_generation_that_have_their_share() -> None:
    scene = Scene()
    [id] = scene.stable(None)

    assert scene.group.check_commit(Claim(id, None, 1)) is Code.NONE
    assert scene.group.check_commit(Claim(id, None, 0)) is Code.ILLEGAL_GENERATION
    assert scene.group.check_commit(Claim("other", None, 1)) is Code.UNKNOWN_MEMBER_ID
    scene.join(id)

    assert scene.group.check_commit(Claim(id, None, 2)) is Code.REBALANCE_IN_PROGRESS


def test_whoever_waits_when_the_broker_stops_is_told_so() -> None:
    scene = Scene()
    leader, _follower = scene.stable(None, None)
    told = scene.join(leader)

    scene.group.stop()

    assert [each.error for each in told] == [Code.COORDINATOR_NOT_AVAILABLE]


# --- Static members ---


def test_a_static_member_that_comes_back_has_its_share_and_fences_the_one_before() -> None:
    scene = Scene()
    _leader, old = scene.stable("a", "b")

    [told] = scene.join(instance="b")
    [share] = scene.sync(told.member_id, 1, instance="b")

    assert (told.error, told.generation, scene.group.state) == (Code.NONE, 1, State.STABLE)
    assert share.assignment == old.encode()
    assert scene.beat(old, 1, "b") is Code.FENCED_INSTANCE_ID
    assert scene.sync(old, 1, instance="b")[0].error is Code.FENCED_INSTANCE_ID
    assert scene.join(old, instance="b")[0].error is Code.FENCED_INSTANCE_ID
    assert scene.group.leave(old, "b") is Code.FENCED_INSTANCE_ID


def test_nobody_waits_for_the_share_of_a_member_that_was_replaced() -> None:
    scene = Scene()
    told = [scene.join(instance="a"), scene.join(instance="b")]
    scene.wait(GROUP_FIRST_JOIN_S)
    scene.sync(told[0][0].member_id, 1, instance="a")

    [back] = scene.join(instance="b")
    for _ in range(int(REBALANCE_S) + 1):
        for id, member in list(scene.group.members.items()):
            scene.beat(id, 1, member.instance_id)
        scene.wait(1)

    assert back.member_id in scene.group.members
    assert scene.group.state is State.STABLE


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_static_leader_that_comes_back_does_not_share_out_again(can_skip: bool) -> None:
    scene = Scene()
    scene.stable("a", "b")

    [told] = scene.join(instance="a", can_skip=can_skip)

    assert (told.leader == told.member_id, told.skip_assignment) == (can_skip, can_skip)
    assert scene.group.state is State.STABLE


def test_a_static_member_that_wants_something_else_makes_all_join_again() -> None:
    scene = Scene()
    scene.stable("a", "b")

    scene.join(instance="b", metadata=b"invoices")

    assert scene.group.state is State.PREPARING


def test_static_members_that_do_not_join_again_stay_while_their_sessions_last() -> None:
    scene = Scene()
    _, other = scene.stable("a", "b")
    told = scene.join(instance="a", metadata=b"invoices")

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(other, 1, "b")
        scene.wait(1)
    assert [len(each.members) for each in told] == [2]
    scene.wait(SESSION_S)

    assert other not in scene.group.members


def test_a_static_member_is_removed_by_the_name_of_its_instance() -> None:
    scene = Scene()
    scene.stable("a", "b")

    assert scene.group.leave("", "b") is Code.NONE
    assert scene.group.leave("", "b") is Code.UNKNOWN_MEMBER_ID

    assert len(scene.group.members) == 1


# --- Random lives ---


class Lives(RuleBasedStateMachine):
    """Members join, sync, are heard of, fall silent and leave, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.scene.on_told = self._check_told
        self.generation = 0
        self.asked: list[tuple[float, list[Joined] | list[Synced]]] = []
        self.known: list[tuple[str, str | None]] = []

    def _check_told(self, answer: Joined | Synced) -> None:
        """Nobody is told anything of another generation."""
        generation = self.scene.group.generation
        if isinstance(answer, Synced):
            assert answer.assignment in (b"", b"%d" % generation)
        else:
            assert answer.error is not Code.NONE or answer.generation == generation

    def _asked(self, told: list[Joined] | list[Synced]) -> None:
        self.asked.append((self.scene.now_s, told))

    def _who(self, place: int) -> tuple[str, str | None]:
        return self.known[place % len(self.known)]

    @rule(
        instance=st.sampled_from([None, None, "a", "b"]),
        needs_id_first=st.booleans(),
        metadata=st.sampled_from([b"x", b"y"]),
    )
    def come(self, instance: str | None, needs_id_first: bool, metadata: bytes) -> None:
        before = set(self.scene.group.members)
        told = self.scene.join(instance=instance, needs_id_first=needs_id_first, metadata=metadata)
        self._asked(told)
        self.known += [(id, instance) for id in self.scene.group.members.keys() - before]
        self.known += [(each.member_id, instance) for each in told if each.error is Code.MEMBER_ID_REQUIRED]

    @precondition(lambda self: self.known)
    @rule(place=st.integers(0, 20), metadata=st.sampled_from([b"x", b"y"]))
    def join_again(self, place: int, metadata: bytes) -> None:
        id, instance = self._who(place)
        self._asked(self.scene.join(id, instance=instance, metadata=metadata))

    @precondition(lambda self: self.known)
    @rule(place=st.integers(0, 20), behind=st.integers(0, 1))
    def sync(self, place: int, behind: int) -> None:
        (id, instance), generation = self._who(place), self.scene.group.generation - behind
        shares = dict.fromkeys(self.scene.group.members, b"%d" % generation)
        self._asked(self.scene.sync(id, generation, shares, instance))

    @precondition(lambda self: self.known)
    @rule(place=st.integers(0, 20))
    def beat(self, place: int) -> None:
        id, instance = self._who(place)
        self.scene.beat(id, self.scene.group.generation, instance)

    @precondition(lambda self: self.known)
    @rule(place=st.integers(0, 20))
    def leave(self, place: int) -> None:
        self.scene.group.leave(*self._who(place))

    @rule(seconds=st.sampled_from([0.05, 1.0, SESSION_S, REBALANCE_S]))
    def wait(self, seconds: float) -> None:
        self.scene.wait(seconds)

    @invariant()
    def one_leads_and_is_a_member(self) -> None:
        group = self.scene.group
        assert (group.leader in group.members) == bool(group.members)
        assert bool(group.members) == (group.state is not State.EMPTY)

    @invariant()
    def the_generation_grows(self) -> None:
        assert self.scene.group.generation >= self.generation
        self.generation = self.scene.group.generation

    @invariant()
    def whoever_asked_is_told_once_and_in_time(self) -> None:
        for since_s, told in self.asked:
            assert len(told) <= 1
            assert told or self.scene.now_s - since_s <= WAIT_S_MAX
        self.asked = [(since_s, told) for since_s, told in self.asked if not told]


Lives.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase


def test_a_group_that_is_woken_a_moment_early_is_woken_again_for_its_first_members() -> None:
    scene = Scene()
    told = scene.join()
    wake_s = scene.group.wake_s()
    assert wake_s is not None

    scene.now_s = wake_s - 1e-6
    scene.group.tick()
    scene.now_s = wake_s + 1e-6

    assert told == []
    assert scene.group.wake_s() == wake_s
    scene.wait(0.0)
    assert [each.error for each in told] == [Code.NONE]
