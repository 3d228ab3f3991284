"""Stream groups compared with plain lists: for any members, processes and messages, both give the same."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.mortal_filesystem import MortalFileSystem
from tests.support.store.stores import quick_store
from warren.errors import NotOwner
from warren.message import Edge, Message
from warren.queue.stream.membership import share
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage import END, START
from warren.storage.format.tags import TagFilter

TAGS = ("", "eu", "eu.de", "eu.fr", "us.ny")
FILTERS = (None, "eu.*", "eu.#", "asia")
PROCESSES_MAX = 3
MEMBERS_MAX = 5
PARTITIONS_MAX = 6

places = st.integers(0, 100)


@dataclass
class Member:
    """The expected state of a member: its position in each owned partition, and its uncommitted messages."""

    group: StreamGroup
    process: Topic
    positions: dict[int, int] = field(default_factory=dict)
    delivered_ends: dict[int, int] = field(default_factory=dict)

    def go_to(self, partition: int, number: int) -> None:
        self.positions[partition] = self.delivered_ends[partition] = number


class GroupBesideLists(RuleBasedStateMachine):
    """Each partition is a list of tags. Every rule does one thing to the group and to the expected state."""

    @initialize(partitions=st.integers(1, 4), tag=st.sampled_from(FILTERS))
    def make(self, partitions: int, tag: str | None) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = SimulatedClock()
        self.tag = None if tag is None else TagFilter.parse(tag)
        self.tags: list[list[str]] = [[] for _ in range(partitions)]
        self.committed = [0] * partitions
        self.processes: list[Topic] = []
        self.members: list[Member] = []
        self.dead: list[object] = []
        self.start_process()
        self.join(0)

    # --- Members ---

    @rule()
    @precondition(lambda self: len(self.processes) < PROCESSES_MAX)
    def start_process(self) -> None:
        store = quick_store(self.directory.name, filesystem=MortalFileSystem(), clock=self.clock)
        partitions = None if store.has_topic("orders") else len(self.tags)
        self.processes.append(store.topic("orders", partitions=partitions))

    @rule(place=places)
    @precondition(lambda self: len(self.members) < MEMBERS_MAX and self.processes)
    def join(self, place: int) -> None:
        process = self.processes[place % len(self.processes)]
        self.clock.pass_ns(1000)
        member = Member(process.group("billing", tag=None if self.tag is None else self.tag.text), process)
        self.members.append(member)
        self._see_ownership(member)

    @rule(place=places)
    @precondition(lambda self: self.members)
    def leave(self, place: int) -> None:
        member = self.members.pop(place % len(self.members))
        member.group.close()
        assert member.group.partitions == []

    @rule(place=places)
    @precondition(lambda self: self.processes)
    def kill(self, place: int) -> None:
        process = self.processes.pop(place % len(self.processes))
        # Kept, because a killed process does not clean up.
        self.dead += [process, *(member for member in self.members if member.process is process)]
        self.members = [member for member in self.members if member.process is not process]
        assert isinstance(process.filesystem, MortalFileSystem)
        process.filesystem.die()

    def _member(self, place: int) -> Member:
        """Returns a member whose next call checks for other members."""
        self.clock.pass_ns(1_000_000_000)
        return self.members[place % len(self.members)]

    def _see_ownership(self, member: Member) -> None:
        """The member has checked: it owns its share, except for partitions that others hold."""
        owned = member.group.partitions
        shares = share(len(self.tags), sorted(other.group.id for other in self.members), member.group.id)
        of_others = {partition for other in self.members if other is not member for partition in other.positions}
        assert owned == [partition for partition in shares if partition not in of_others]
        self._take_over(member, owned)

    def _take_over(self, member: Member, owned: list[int]) -> None:
        for partition in set(member.positions).difference(owned):
            del member.positions[partition], member.delivered_ends[partition]
        for partition in set(owned).difference(member.positions):
            member.go_to(partition, self.committed[partition])

    # --- Messages ---

    @rule(place=places, tags=st.lists(st.sampled_from(TAGS), min_size=1, max_size=30))
    @precondition(lambda self: self.processes)
    def put(self, place: int, tags: list[str]) -> None:
        partition = place % len(self.tags)
        process = self.processes[place % len(self.processes)]
        process.see_partitions()
        process.put_many([b"x"] * len(tags), tags=tags, partition=partition)
        self.tags[partition] += tags

    @rule()
    @precondition(lambda self: self.processes and len(self.tags) < PARTITIONS_MAX)
    def add_partition(self) -> None:
        self.processes[-1].configure(partitions=len(self.tags) + 1)
        self.tags.append([])
        self.committed.append(0)

    def _passing(self, partition: int, start: int) -> list[int]:
        tags = self.tags[partition]
        numbers = range(start, len(tags))
        return [number for number in numbers if self.tag is None or self.tag.matches(tags[number])]

    @rule(place=places, limit=st.integers(1, 40))
    @precondition(lambda self: self.members)
    def read(self, place: int, limit: int) -> None:
        member = self._member(place)

        messages = member.group.read(limit)

        self._see_ownership(member)
        self._check_read(member, messages)
        unread_count = sum(len(self._passing(partition, position)) for partition, position in member.positions.items())
        assert len(messages) == limit or unread_count == 0
        assert len(messages) <= limit

    def _check_read(self, member: Member, messages: list[Message]) -> None:
        """Each partition returns its next messages, in order; the member's position is before the
        next one that passes.
        """
        by_partition = {partition: list[int]() for partition in member.positions}
        for message in messages:
            assert message.tag == self.tags[message.partition][message.number]
            by_partition[message.partition].append(message.number)
        for partition, numbers in by_partition.items():
            expected = self._passing(partition, member.positions[partition])
            assert numbers == expected[: len(numbers)]
            behind = numbers[-1] + 1 if numbers else member.positions[partition]
            following = self._passing(partition, behind)
            position = member.group.position(partition)
            assert behind <= position <= (following[0] if following else len(self.tags[partition]))
            member.positions[partition] = position
            if numbers:
                member.delivered_ends[partition] = position

    @rule(place=places, count=st.integers(1, 20))
    @precondition(lambda self: self.members)
    def iterate(self, place: int, count: int) -> None:
        member = self._member(place)
        member.group.lag()
        self._keep_what_is_uncommitted(member)
        unread_count = sum(len(self._passing(partition, position)) for partition, position in member.positions.items())

        messages = list(itertools.islice(member.group, min(count, unread_count)))

        assert len(messages) == min(count, unread_count)
        self._check_read(member, messages)

    def _keep_what_is_uncommitted(self, member: Member) -> None:
        """The member has checked, and may not have given up its uncommitted partitions."""
        owned = member.group.partitions
        uncommitted = {partition for partition, end in member.delivered_ends.items() if end > self.committed[partition]}
        shares = share(len(self.tags), sorted(other.group.id for other in self.members), member.group.id)
        of_others = {partition for other in self.members if other is not member for partition in other.positions}
        assert set(owned) == uncommitted | set(shares) - of_others
        self._take_over(member, owned)

    @rule(place=places)
    @precondition(lambda self: self.members)
    def keep(self, place: int) -> None:
        member = self._member(place)

        member.process.store.keep()

        # Members of one process check one after the other: a later one may have taken what an earlier one gave up.
        for other in [other for other in self.members if other.process is member.process]:
            owned = other.group.partitions
            for partition in set(other.positions).difference(owned):
                assert other.delivered_ends[partition] <= self.committed[partition]
            self._take_over(other, owned)

    # --- Committing ---

    @rule(place=places)
    @precondition(lambda self: self.members)
    def commit(self, place: int) -> None:
        member = self._member(place)
        expected = {
            partition: position
            for partition, position in member.positions.items()
            if position != self.committed[partition]
        }
        assert member.group.read_positions() == expected

        assert member.group.commit() == expected

        for partition, position in expected.items():
            self.committed[partition] = position
        self._see_ownership(member)

    @rule(place=places, partition=places, number=places)
    @precondition(lambda self: self.members)
    def commit_position(self, place: int, partition: int, number: int) -> None:
        member, partition = self._member(place), partition % len(self.tags)
        number %= len(self.tags[partition]) + 1
        if partition not in member.positions:
            with pytest.raises(NotOwner):
                member.group.commit({partition: number})
            return

        member.group.commit({partition: number})

        # A commit never goes back.
        self.committed[partition] = max(self.committed[partition], number)
        member.positions[partition] = max(member.positions[partition], number)
        self._keep_what_is_uncommitted(member)

    @rule(place=places, to=st.sampled_from([START, END]) | places)
    @precondition(lambda self: self.members)
    def seek(self, place: int, to: int | Edge) -> None:
        member = self._member(place)

        numbers = member.group.seek(to)

        self._keep_what_is_uncommitted(member)
        assert set(numbers) == set(member.positions)
        for partition, number in numbers.items():
            end = len(self.tags[partition])
            assert number == (min(to, end) if isinstance(to, int) else {START: 0, END: end}[to])
            self.committed[partition] = number
            member.go_to(partition, number)

    @rule(place=places)
    @precondition(lambda self: self.members)
    def rewind(self, place: int) -> None:
        member = self._member(place)

        member.group.rewind()

        for partition in member.positions:
            member.go_to(partition, self.committed[partition])

    # --- Invariants ---

    @invariant()
    @precondition(lambda self: hasattr(self, "members"))
    def no_partition_has_two_owners(self) -> None:
        owned = [partition for member in self.members for partition in member.group.partitions]
        assert len(owned) == len(set(owned))

    @invariant()
    @precondition(lambda self: hasattr(self, "members"))
    def everybody_sees_where_the_group_stands(self) -> None:
        for member in self.members:
            for partition in range(member.process.partition_count):
                expected = member.positions.get(partition, self.committed[partition])
                assert member.group.position(partition) == expected

    def teardown(self) -> None:
        if not hasattr(self, "members"):
            return
        for member in self.members:
            for partition, position in member.positions.items():
                self.committed[partition] = position
        for member in self.members * 2:
            self.clock.pass_ns(1_000_000_000)
            member.group.commit()
        ids = sorted(member.group.id for member in self.members)
        for member in self.members:
            assert member.group.partitions == list(share(len(self.tags), ids, member.group.id))
        for process in self.processes:
            process.store.close()
        with quick_store(self.directory.name, clock=self.clock) as store:
            group = store.topic("orders").group("billing")
            pairs = sorted((message.partition, message.number) for message in group.read(100_000))
            assert group.lag() == {number: len(tags) - self.committed[number] for number, tags in enumerate(self.tags)}
        assert pairs == [
            (partition, number)
            for partition, start in enumerate(self.committed)
            for number in self._passing(partition, start)
        ]
        self.dead.clear()
        self.directory.cleanup()


TestStreamGroups = GroupBesideLists.TestCase
TestStreamGroups.settings = settings(max_examples=examples(40), stateful_step_count=40)
