"""A classic group: every step of its table, the answers to each kind of member, and random lives of whole groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.classic import GROUP_FIRST_JOIN_S, TRANSITIONS, ClassicGroup, GroupEvent, GroupState
from warren.broker.kafka.groups.limits import GROUP_MEMBERS_MAX
from warren.broker.kafka.groups.members import Joined, Joining, MemberIdentity, Protocol, Synced, Syncing

SESSION_S = 10.0
REBALANCE_S = 60.0
T = TypeVar("T")
WAIT_S_MAX = 2 * REBALANCE_S + SESSION_S


class Scene:
    """A group, its clock, and the answers to its members."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.group = ClassicGroup("readers", lambda: self.now_s)
        self.on_answer: Callable[[Any], None] = lambda answer: None

    def join(self, id: str = "", **fields: Any) -> list[Joined]:
        answers: list[Joined] = []
        self.group.join(joining(id, **fields), lambda joined: self._record(answers, joined))
        return answers

    def sync(
        self, id: str, generation: int, shares: dict[str, bytes] | None = None, instance: str | None = None
    ) -> list[Synced]:
        answers: list[Synced] = []
        request = Syncing(claim=MemberIdentity(id, instance, generation), assignments=shares or {})
        self.group.sync(request, lambda synced: self._record(answers, synced))
        return answers

    def _record(self, answers: list[T], answer: T) -> None:
        answers.append(answer)
        self.on_answer(answer)

    def beat(self, id: str, generation: int, instance: str | None = None) -> Code:
        return self.group.heartbeat(MemberIdentity(id, instance, generation))

    def wait(self, seconds: float) -> None:
        """Lets time pass; everything that becomes due in it happens on time."""
        end_s = self.now_s + seconds
        while (wake_s := self.group.wake_s()) is not None and wake_s <= end_s:
            self.now_s = max(self.now_s, wake_s)
            self.group.tick()
            later_s = self.group.wake_s()
            assert later_s is None or later_s > self.now_s, "it would be woken again and again"
        self.now_s = end_s

    def stable(self, *instances: str | None, protocols: Sequence[str] = ("range",)) -> list[str]:
        """Returns the ids of members that share the group already, the leader first."""
        answers = [self.join(instance=instance, protocols=protocols) for instance in instances]
        self.wait(GROUP_FIRST_JOIN_S)
        ids = [each.member_id for [each] in answers]
        for id, instance in reversed(list(zip(ids, instances, strict=True))):
            self.sync(id, self.group.generation, {each: each.encode() for each in ids}, instance)
        assert self.group.state is GroupState.STABLE
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


def bring_to(scene: Scene, state: GroupState) -> None:
    if state is GroupState.PREPARING:
        scene.join()
    elif state is GroupState.COMPLETING:
        scene.join()
        scene.wait(GROUP_FIRST_JOIN_S)
    elif state is GroupState.STABLE:
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


HAPPENINGS: dict[GroupEvent, Callable[[Scene], None]] = {
    GroupEvent.MEMBERS_CHANGE: let_somebody_join,
    GroupEvent.ALL_JOINED: let_all_join,
    GroupEvent.ALL_GONE: let_all_leave,
    GroupEvent.SHARED_OUT: let_the_leader_share_out,
}
LIVING = [state for state in GroupState if state is not GroupState.DEAD]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(LIVING, GroupEvent)), ids=lambda each: each.name)
def test_every_event_changes_the_state_of_the_group_as_the_table_says(state: GroupState, event: GroupEvent) -> None:
    scene = Scene()
    bring_to(scene, state)

    HAPPENINGS[event](scene)

    assert scene.group.state is TRANSITIONS.get((state, event), state)


# --- Joining ---


def test_a_client_without_a_member_id_gets_one_and_joins_with_it() -> None:
    scene = Scene()

    [first] = scene.join(needs_id_first=True)
    answers = scene.join(first.member_id, needs_id_first=True)
    scene.wait(GROUP_FIRST_JOIN_S)

    assert first.error is Code.MEMBER_ID_REQUIRED
    assert [(each.error, each.member_id, each.generation) for each in answers] == [(Code.NONE, first.member_id, 1)]


def test_a_member_id_that_is_not_used_to_join_expires() -> None:
    scene = Scene()
    [pending] = scene.join(needs_id_first=True)

    answers = scene.join()
    scene.wait(GROUP_FIRST_JOIN_S)
    assert answers == []
    scene.wait(SESSION_S)
    [late] = scene.join(pending.member_id)

    assert [each.error for each in answers] == [Code.NONE]
    assert late.error is Code.UNKNOWN_MEMBER_ID


def test_members_that_join_together_share_one_generation_and_one_leader_who_gets_the_member_list() -> None:
    scene = Scene()

    answers = [scene.join(), scene.join(), scene.join()]
    scene.wait(GROUP_FIRST_JOIN_S)

    joined = [each for [each] in answers]
    assert {each.generation for each in joined} == {1}
    assert {each.leader for each in joined} == {joined[0].member_id}
    assert [len(each.members) for each in joined] == [3, 0, 0]


def test_a_follower_that_rejoins_unchanged_causes_no_rebalance_and_a_leader_does() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    [answers] = scene.join(follower)
    assert (answers.error, answers.generation, scene.group.state) == (Code.NONE, 1, GroupState.STABLE)
    waiting = scene.join(leader)

    assert waiting == []
    assert scene.group.state is GroupState.PREPARING
    assert scene.beat(follower, 1) is Code.REBALANCE_IN_PROGRESS


def test_a_follower_that_rejoins_with_another_subscription_causes_a_rebalance() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    answers = scene.join(follower, metadata=b"orders, invoices")
    answers += scene.join(leader)

    assert [each.generation for each in answers] == [2, 2]


def test_a_repeated_join_gets_the_same_answer() -> None:
    scene = Scene()
    answers = [scene.join(), scene.join()]
    scene.wait(GROUP_FIRST_JOIN_S)

    [again] = scene.join(answers[1][0].member_id)

    assert again == answers[1][0]
    assert scene.group.state is GroupState.COMPLETING


def test_a_request_that_is_sent_twice_gets_two_answers() -> None:
    scene = Scene()
    [id] = scene.stable(None)
    other = scene.join()

    first, second = scene.join(id), scene.join(id)
    scene.wait(0)

    assert [each.error for each in first] == [Code.NONE]
    assert [each.error for each in second] == [Code.NONE]
    assert [each.error for each in other] == [Code.NONE]


def test_the_group_uses_the_protocol_that_all_support_and_most_prefer() -> None:
    scene = Scene()

    answers = scene.join(protocols=["sticky", "range", "robin"])
    scene.join(protocols=["range", "robin"])
    scene.join(protocols=["robin", "range"])
    scene.wait(GROUP_FIRST_JOIN_S)

    assert answers[0].protocol == "range"


@pytest.mark.parametrize("fields", [{"protocols": ["other"]}, {"protocol_type": "connect"}, {"protocols": []}])
def test_a_member_without_a_protocol_in_common_is_refused(fields: dict[str, Any]) -> None:
    scene = Scene()
    scene.stable(None)

    [answers] = scene.join(**fields)

    assert answers.error is Code.INCONSISTENT_GROUP_PROTOCOL
    assert scene.group.state is GroupState.STABLE


def test_a_group_limits_its_members_and_pending_member_ids() -> None:
    scene = Scene()
    for _ in range(GROUP_MEMBERS_MAX):
        scene.join(needs_id_first=True)

    [answers] = scene.join(needs_id_first=True)

    assert answers.error is Code.GROUP_MAX_SIZE_REACHED


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)
    answers = scene.join(leader)
    while scene.now_s < 100 + REBALANCE_S:
        scene.beat(follower, 1)
        scene.wait(1)
    scene.wait(1)

    assert [(each.generation, len(each.members)) for each in answers] == [(2, 1)]
    assert scene.beat(follower, 1) is Code.UNKNOWN_MEMBER_ID


def test_members_that_keep_joining_do_not_delay_the_answers_of_waiting_members() -> None:
    scene = Scene()
    leader, _silent = scene.stable(None, None)
    scene.group.members[_silent].deadline_s = 1e9
    answers = scene.join(leader)

    for _ in range(70):
        scene.join()
        scene.wait(1)

    assert [each.error for each in answers] == [Code.NONE]


# --- Sharing out ---


def test_followers_wait_for_the_leader_and_each_gets_its_own_assignment() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))

    waiting = scene.sync(follower, 1)
    assert waiting == []
    answers = scene.sync(leader, 1, {leader: b"even", follower: b"odd"})

    assert [each.assignment for each in answers + waiting] == [b"even", b"odd"]


def _joined_together(scene: Scene, count: int) -> list[list[Joined]]:
    answers = [scene.join() for _ in range(count)]
    scene.wait(GROUP_FIRST_JOIN_S)
    return answers


def test_a_leader_that_sends_no_assignment_in_time_is_removed() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))
    waiting = scene.sync(follower, 1)

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(leader, 1)
        scene.wait(1)

    assert [each.error for each in waiting] == [Code.REBALANCE_IN_PROGRESS]
    assert list(scene.group.members) == [follower]


def test_a_follower_that_never_asks_for_its_assignment_is_removed() -> None:
    scene = Scene()
    leader, follower = (each[0].member_id for each in _joined_together(scene, 2))
    scene.sync(leader, 1)

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(leader, 1)
        scene.beat(follower, 1)
        scene.wait(1)

    assert list(scene.group.members) == [leader]
    assert scene.group.state is GroupState.PREPARING


def test_an_assignment_of_another_generation_or_protocol_is_refused() -> None:
    scene = Scene()
    [id] = scene.stable(None)
    answers: list[Synced] = []

    stale = scene.sync(id, 0)
    scene.group.sync(Syncing(claim=MemberIdentity(id, None, 1), protocol="other", assignments={}), answers.append)

    assert [each.error for each in stale + answers] == [Code.ILLEGAL_GENERATION, Code.INCONSISTENT_GROUP_PROTOCOL]


# --- Staying and leaving ---


def test_a_silent_member_is_removed_and_the_others_must_rejoin() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    scene.wait(SESSION_S / 2)
    scene.beat(follower, 1)
    scene.wait(SESSION_S / 2)

    assert scene.beat(follower, 1) is Code.REBALANCE_IN_PROGRESS
    assert scene.beat(leader, 1) is Code.UNKNOWN_MEMBER_ID


def test_a_waiting_member_needs_no_heartbeats() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)
    answers = scene.join(leader)

    for _ in range(3):
        scene.wait(SESSION_S * 0.9)
        scene.beat(follower, 1)
    answers += scene.join(follower)

    assert [each.error for each in answers] == [Code.NONE, Code.NONE]


def test_a_group_without_members_waits_for_nothing() -> None:
    scene = Scene()
    leader, follower = scene.stable(None, None)

    assert scene.group.leave(leader) is Code.NONE
    assert scene.group.leave(follower) is Code.NONE

    assert scene.group.state is GroupState.EMPTY
    assert scene.group.wake_s() is None
    assert scene.group.leave(leader) is Code.UNKNOWN_MEMBER_ID


def test_only_members_of_the_generation_with_an_assignment_may_commit() -> None:
    scene = Scene()
    [id] = scene.stable(None)

    assert scene.group.check_commit(MemberIdentity(id, None, 1)) is Code.NONE
    assert scene.group.check_commit(MemberIdentity(id, None, 0)) is Code.ILLEGAL_GENERATION
    assert scene.group.check_commit(MemberIdentity("other", None, 1)) is Code.UNKNOWN_MEMBER_ID
    scene.join(id)

    assert scene.group.check_commit(MemberIdentity(id, None, 2)) is Code.REBALANCE_IN_PROGRESS


def test_requests_that_wait_when_the_broker_stops_get_an_error() -> None:
    scene = Scene()
    leader, _follower = scene.stable(None, None)
    answers = scene.join(leader)

    scene.group.stop()

    assert [each.error for each in answers] == [Code.COORDINATOR_NOT_AVAILABLE]


# --- Static members ---


def test_a_static_member_that_returns_keeps_its_assignment_and_fences_its_predecessor() -> None:
    scene = Scene()
    _leader, old = scene.stable("a", "b")

    [answers] = scene.join(instance="b")
    [share] = scene.sync(answers.member_id, 1, instance="b")

    assert (answers.error, answers.generation, scene.group.state) == (Code.NONE, 1, GroupState.STABLE)
    assert share.assignment == old.encode()
    assert scene.beat(old, 1, "b") is Code.FENCED_INSTANCE_ID
    assert scene.sync(old, 1, instance="b")[0].error is Code.FENCED_INSTANCE_ID
    assert scene.join(old, instance="b")[0].error is Code.FENCED_INSTANCE_ID
    assert scene.group.leave(old, "b") is Code.FENCED_INSTANCE_ID


def test_the_group_does_not_wait_for_a_member_that_was_replaced() -> None:
    scene = Scene()
    answers = [scene.join(instance="a"), scene.join(instance="b")]
    scene.wait(GROUP_FIRST_JOIN_S)
    scene.sync(answers[0][0].member_id, 1, instance="a")

    [back] = scene.join(instance="b")
    for _ in range(int(REBALANCE_S) + 1):
        for id, member in list(scene.group.members.items()):
            scene.beat(id, 1, member.instance_id)
        scene.wait(1)

    assert back.member_id in scene.group.members
    assert scene.group.state is GroupState.STABLE


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_static_leader_that_returns_does_not_assign_again(can_skip: bool) -> None:
    scene = Scene()
    scene.stable("a", "b")

    [answers] = scene.join(instance="a", can_skip=can_skip)

    assert (answers.leader == answers.member_id, answers.skip_assignment) == (can_skip, can_skip)
    assert scene.group.state is GroupState.STABLE


def test_a_static_member_that_returns_with_another_subscription_causes_a_rebalance() -> None:
    scene = Scene()
    scene.stable("a", "b")

    scene.join(instance="b", metadata=b"invoices")

    assert scene.group.state is GroupState.PREPARING


def test_static_members_that_do_not_join_again_stay_while_their_sessions_last() -> None:
    scene = Scene()
    _, other = scene.stable("a", "b")
    answers = scene.join(instance="a", metadata=b"invoices")

    for _ in range(int(REBALANCE_S) + 1):
        scene.beat(other, 1, "b")
        scene.wait(1)
    assert [len(each.members) for each in answers] == [2]
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
    """Members join, sync, send heartbeats, fall silent and leave, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene()
        self.scene.on_answer = self._check_answer
        self.generation = 0
        self.requests: list[tuple[float, list[Joined] | list[Synced]]] = []
        self.identities: list[tuple[str, str | None]] = []

    def _check_answer(self, answer: Joined | Synced) -> None:
        """No member gets an answer of another generation."""
        generation = self.scene.group.generation
        if isinstance(answer, Synced):
            assert answer.assignment in (b"", b"%d" % generation)
        else:
            assert answer.error is not Code.NONE or answer.generation == generation

    def _note_request(self, answers: list[Joined] | list[Synced]) -> None:
        self.requests.append((self.scene.now_s, answers))

    def _who(self, place: int) -> tuple[str, str | None]:
        return self.identities[place % len(self.identities)]

    @rule(
        instance=st.sampled_from([None, None, "a", "b"]),
        needs_id_first=st.booleans(),
        metadata=st.sampled_from([b"x", b"y"]),
    )
    def come(self, instance: str | None, needs_id_first: bool, metadata: bytes) -> None:
        before = set(self.scene.group.members)
        answers = self.scene.join(instance=instance, needs_id_first=needs_id_first, metadata=metadata)
        self._note_request(answers)
        self.identities += [(id, instance) for id in self.scene.group.members.keys() - before]
        self.identities += [(each.member_id, instance) for each in answers if each.error is Code.MEMBER_ID_REQUIRED]

    @precondition(lambda self: self.identities)
    @rule(place=st.integers(0, 20), metadata=st.sampled_from([b"x", b"y"]))
    def join_again(self, place: int, metadata: bytes) -> None:
        id, instance = self._who(place)
        self._note_request(self.scene.join(id, instance=instance, metadata=metadata))

    @precondition(lambda self: self.identities)
    @rule(place=st.integers(0, 20), behind=st.integers(0, 1))
    def sync(self, place: int, behind: int) -> None:
        (id, instance), generation = self._who(place), self.scene.group.generation - behind
        shares = dict.fromkeys(self.scene.group.members, b"%d" % generation)
        self._note_request(self.scene.sync(id, generation, shares, instance))

    @precondition(lambda self: self.identities)
    @rule(place=st.integers(0, 20))
    def beat(self, place: int) -> None:
        id, instance = self._who(place)
        self.scene.beat(id, self.scene.group.generation, instance)

    @precondition(lambda self: self.identities)
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
        assert bool(group.members) == (group.state is not GroupState.EMPTY)

    @invariant()
    def the_generation_grows(self) -> None:
        assert self.scene.group.generation >= self.generation
        self.generation = self.scene.group.generation

    @invariant()
    def each_request_is_answered_once_and_in_time(self) -> None:
        for since_s, answers in self.requests:
            assert len(answers) <= 1
            assert answers or self.scene.now_s - since_s <= WAIT_S_MAX
        self.requests = [(since_s, answers) for since_s, answers in self.requests if not answers]


Lives.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase


def test_a_group_that_is_woken_a_moment_early_is_woken_again_for_its_first_members() -> None:
    scene = Scene()
    answers = scene.join()
    wake_s = scene.group.wake_s()
    assert wake_s is not None

    scene.now_s = wake_s - 1e-6
    scene.group.tick()
    scene.now_s = wake_s + 1e-6

    assert answers == []
    assert scene.group.wake_s() == wake_s
    scene.wait(0.0)
    assert [each.error for each in answers] == [Code.NONE]
