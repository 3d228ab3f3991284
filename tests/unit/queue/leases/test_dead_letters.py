"""Dead letters: messages that failed too often go to a separate topic, once, and come back once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import WatchedDisk
from tests.support.store.dead_letters import LEASE_S, Bench, Stopped, fail, stop_at
from warren.errors import BadInput, CorruptRecord, LeaseLost, StorageFull, SyncFailed, UnsupportedByVersion
from warren.message import Message
from warren.queue.leases import dead_letters
from warren.queue.leases.dead_letter_views import put_back
from warren.queue.leases.dead_letters import REASON_SIZE_MAX, DeadLetters, Failure
from warren.queue.leases.queue_group import LOOK_S, QueueGroup
from warren.queue.state.group_settings import GroupSettings
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.limits import HEADERS_SIZE_MAX


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def facts(letter: Message) -> Mapping[str, bytes]:
    prefix = "warren.dead-"
    return {name[len(prefix) :]: value for name, value in letter.headers.items() if name.startswith(prefix)}


# --- Going there ---


def test_a_message_that_failed_too_often_becomes_a_dead_letter(bench: Bench) -> None:
    bench.topic.put(b"bad", key=b"k", tag="eu.de", headers={"h": b"1"}, id="id", corr_offset=3, partition=1)
    group = bench.group()
    fail(group)
    assert bench.letters() == []

    fail(group, "out of stock")

    (letter,) = bench.letters()
    assert (letter.body, letter.key, letter.tag, letter.id, letter.corr_offset) == (b"bad", b"k", "eu.de", "id", 3)
    assert letter.headers["h"] == b"1"
    assert facts(letter) == {
        "reason": b"out of stock",
        "attempts": b"2",
        "topic": b"orders",
        "partition": b"1",
        "number": b"0",
        "group": b"workers",
    }
    assert group.take(10) == []
    assert group.lag() == {0: 0, 1: 0}


def test_a_message_that_is_rejected_becomes_a_dead_letter_at_its_first_attempt(bench: Bench) -> None:
    bench.topic.put(b"never")
    group = bench.group()
    message = group.take()
    assert message is not None

    group.reject(message, "unreadable")

    assert [letter.headers["warren.dead-reason"] for letter in bench.letters()] == [b"unreadable"]
    assert group.take() is None
    with pytest.raises(LeaseLost):
        group.reject(message)


def before_a_burial(patch: pytest.MonkeyPatch, interference: Callable[[], object]) -> None:
    """Runs something between the decision to bury a message and the burial."""
    bury = DeadLetters.bury

    def late(dead: DeadLetters, failed: Sequence[Failure]) -> tuple[list[Failure], int]:
        patch.undo()
        interference()
        return bury(dead, failed)

    patch.setattr(DeadLetters, "bury", late)


@pytest.mark.parametrize("attempts_max", [2, 1])
def test_rejecting_a_message_that_another_worker_holds_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, attempts_max: int
) -> None:
    bench.topic.put(b"slow")
    group, other = bench.group(attempts_max=attempts_max), bench.group(bench.open(), attempts_max=3)
    message = group.take()
    assert message is not None

    def take() -> None:
        bench.wait(LEASE_S)
        assert [message.attempt for message in other.take(10)] == [2]

    before_a_burial(monkeypatch, take)
    give_up = group.nack if attempts_max == 1 else group.reject
    with pytest.raises(LeaseLost) as lost:
        give_up(message, reason="no luck")

    assert lost.value.places == [(message.partition, message.number)]
    assert bench.letters() == []
    assert group.in_flight() == 1


@pytest.mark.parametrize("change", ["extended", "snapshot"])
def test_a_lease_that_was_extended_or_replayed_in_between_can_be_rejected(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    bench.topic.put(b"bad")
    group = bench.group()
    message = group.take()
    assert message is not None

    def interfere() -> None:
        if change == "extended":
            group.extend(message, 60.0)
        else:
            group._leases.restore(json.loads(json.dumps(group._leases.snapshot())))

    before_a_burial(monkeypatch, interfere)
    group.reject(message, "bad")

    assert [letter.body for letter in bench.letters()] == [b"bad"]
    assert group.in_flight() == 0


def test_a_message_whose_last_lease_is_extended_before_it_is_buried_stays_leased(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.topic.put(b"slow")
    group, other = bench.group(attempts_max=1), bench.group(bench.open(), attempts_max=1)
    message = group.take()
    assert message is not None
    bench.wait(LEASE_S)

    before_a_burial(monkeypatch, lambda: group.extend(message, LEASE_S))
    assert other.take() is None

    assert bench.letters() == []
    group.ack(message)


def test_a_lease_that_ran_out_for_the_last_time_is_a_death(bench: Bench) -> None:
    bench.topic.put_many([b"a", b"b"], partition=0)
    group = bench.group()
    for _ in range(2):
        assert len(group.take(10)) == 2
        bench.wait(LEASE_S)

    assert group.take(10) == []

    assert [(letter.body, facts(letter)["reason"]) for letter in bench.letters()] == [
        (b"a", b"its lease ran out"),
        (b"b", b"its lease ran out"),
    ]


def test_the_reason_of_a_letter_is_the_death_of_its_last_owner(bench: Bench) -> None:
    bench.topic.put(b"a")
    group, other = bench.group(attempts_max=1), bench.open()
    assert bench.group(other, attempts_max=1).take() is not None
    other.close()
    bench.wait(LOOK_S)

    assert group.take() is None

    assert [facts(letter)["reason"] for letter in bench.letters()] == [b"its process died"]


def test_a_message_acknowledged_at_the_last_moment_is_not_buried(bench: Bench) -> None:
    bench.topic.put(b"a", partition=0)
    group = bench.group(attempts_max=1)
    message = group.take()
    assert message is not None
    lease = group._leases.outstanding[0][0]
    group.ack(message)

    group._dead.bury([Failure(0, 0, lease, "too late")])

    assert bench.letters() == []


def test_with_no_limit_of_attempts_nothing_dies(bench: Bench) -> None:
    bench.topic.put(b"a")
    group = bench.group(attempts_max=0)
    for _ in range(20):
        fail(group)

    message = group.take()
    assert message is not None
    assert message.attempt == 21
    assert bench.letters() == []


def test_a_dying_message_does_not_delay_others(bench: Bench) -> None:
    bench.topic.put_many([b"a", b"b"], partition=0)
    group = bench.group(attempts_max=1)
    group.take(2)
    bench.wait(LEASE_S)
    bench.topic.put(b"c", partition=0)

    assert [message.body for message in group.take(1)] == [b"c"]
    assert [letter.body for letter in bench.letters()] == [b"a", b"b"]


def test_many_die_in_several_burials(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "BURIAL_COUNT_MAX", 10)
    monkeypatch.setattr("warren.queue.leases.take.BURIAL_COUNT_MAX", 10)
    bench.topic.put_many([b"%d" % number for number in range(35)], partition=0)
    group = bench.group(attempts_max=1)
    group.take(35)
    bench.wait(LEASE_S)

    assert group.take(35) == []

    assert [int(letter.body) for letter in bench.letters()] == list(range(35))


def test_the_topic_of_dead_letters_can_be_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, dead_letter="graveyard")
    bench.store.topic("graveyard", 3)
    bench.topic.put(b"a")
    group = bench.group(attempts_max=1)

    fail(group)

    assert group.dead is bench.store.topic("graveyard")
    assert [letter.body for letter in bench.letters("graveyard")] == [b"a"]
    assert bench.store.topics() == ["graveyard", "orders"]


def test_the_topic_of_dead_letters_is_made_on_first_use(bench: Bench) -> None:
    group = bench.group()
    assert bench.store.topics() == ["orders"]

    dead = group.dead

    assert (dead.name, dead.partition_count, dead.settings.durability) == ("orders.dead", 1, "os")
    assert dead.settings.block_size >= 2 * bench.topic.settings.block_size


@pytest.mark.parametrize(("name", "dead_letter"), [("own", "own"), ("x" * 245, "")])
def test_a_group_that_could_have_no_dead_letters_is_refused(bench: Bench, name: str, dead_letter: str) -> None:
    topic = bench.store.topic(name, dead_letter=dead_letter)

    with pytest.raises(BadInput):
        QueueGroup(topic, "workers", GroupSettings(mode="queue"))


def test_a_dead_letter_has_no_place_in_version_1(tmp_path: Path) -> None:
    bench = Bench(tmp_path, dead_letter="graveyard")
    bench.store.topic("graveyard", version=1)
    bench.topic.put(b"a")
    group = bench.group(attempts_max=1)

    with pytest.raises(UnsupportedByVersion):
        fail(group)

    assert group.lag() == {0: 1, 1: 0}


def test_messages_of_version_1_have_dead_letters_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, version=1)
    bench.topic.put(b"a", id="mine", tag="eu", partition=0)
    bench.topic.put(b"b", partition=0)
    group = bench.group(attempts_max=1)

    fail(group)
    assert [letter.body for letter in bench.letters()] == [b"a", b"b"]
    assert group.redrive() == 2

    first, second = group.take(10)
    assert (first.body, first.id, first.tag) == (b"a", "mine", "eu")
    assert second.body == b"b"


def test_a_long_reason_is_cut(bench: Bench) -> None:
    bench.topic.put(b"a")
    fail(bench.group(attempts_max=1), "µ" * REASON_SIZE_MAX + "end")

    (letter,) = bench.letters()
    assert facts(letter)["reason"].decode() == "µ" * (REASON_SIZE_MAX // 2)


def test_headers_that_leave_no_room_go(bench: Bench) -> None:
    large = {"first": b"1", "large": bytes(HEADERS_SIZE_MAX - 30)}
    bench.topic.put(b"a", headers=large)

    fail(bench.group(attempts_max=1))

    (letter,) = bench.letters()
    assert letter.headers["first"] == b"1"
    assert "large" not in letter.headers
    assert facts(letter)["number"] == b"0"


def test_a_letter_that_dies_again_has_the_last_reason(bench: Bench) -> None:
    bench.topic.put(b"a")
    fail(bench.group(attempts_max=1))
    dead = bench.store.topic(bench.group().dead.name)

    again = QueueGroup(dead, "graves", GroupSettings(mode="queue", attempts_max=1))
    fail(again, "worse")

    (letter,) = again.dead.partition(0).read(0)
    assert (facts(letter)["topic"], facts(letter)["reason"]) == (b"orders.dead", b"worse")


def test_a_damaged_message_affects_no_other_and_is_reported_in_a_letter(bench: Bench) -> None:
    for number in range(5):
        bench.topic.put(b"body %d" % number, partition=0)
    damage(bench.topic.partition(0), b"body 2")
    group = bench.group()

    messages = group.take(10)
    assert [message.body for message in messages] == [b"body 0", b"body 1", b"body 3", b"body 4"]
    group.ack_many(messages)
    bench.wait(LEASE_S)
    with pytest.raises(CorruptRecord):
        group.take(10)
    bench.wait(LEASE_S)
    assert group.take(10) == []

    (letter,) = bench.letters()
    assert (letter.body, facts(letter)["number"]) == (b"", b"2")
    assert letter.headers["warren.damage"].startswith(b"damaged at byte ")
    assert b"/" not in letter.headers["warren.damage"]
    assert group.redrive() == 0
    assert group.lag() == {0: 0, 1: 0}


def test_with_a_filter_the_messages_before_the_damage_are_handed_out(bench: Bench) -> None:
    for number in range(4):
        bench.topic.put(b"body %d" % number, partition=0, tag="eu")
    damage(bench.topic.partition(0), b"body 2")
    group = bench.group(tag="eu")

    assert [message.body for message in group.take(10)] == [b"body 0"]
    assert [message.body for message in group.take(10)] == [b"body 1"]
    with pytest.raises(CorruptRecord):
        group.take(10)


def damage(log: Log, body: bytes) -> None:
    (path,) = Path(log.path).glob("*.block")
    with open(path, "r+b") as file:
        file.seek(file.read().index(body))
        file.write(b"B")


# --- Coming back ---


def test_dead_letters_are_put_back_once(bench: Bench) -> None:
    bench.topic.put(b"a", key=b"k", tag="eu", headers={"h": b"1"}, id="id", corr_offset=3, partition=1)
    group = bench.group()
    fail(group)
    fail(group)

    assert group.redrive() == 1
    assert group.redrive() == 0

    (message,) = group.take(10)
    assert (message.partition, message.number, message.attempt) == (1, 1, 1)
    assert (message.body, message.key, message.tag, message.id, message.corr_offset) == (b"a", b"k", "eu", "id", 3)
    assert dict(message.headers) == {"h": b"1"}
    assert bench.group(bench.open()).redrive() == 0


def test_no_more_dead_letters_than_the_limit_are_put_back(bench: Bench) -> None:
    bench.topic.put_many([b"%d" % number for number in range(5)], partition=0)
    group = bench.group(attempts_max=1)
    fail(group)

    assert [group.redrive(2), group.redrive(2), group.redrive(2), group.redrive(2)] == [2, 2, 1, 0]

    assert [message.body for message in group.take(10)] == [b"0", b"1", b"2", b"3", b"4"]


def test_many_are_put_back_in_several_commits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "REDRIVE_COUNT_MAX", 3)
    bench.topic.put_many([b"%d" % number for number in range(10)], partition=0)
    group = bench.group(attempts_max=1)
    fail(group)

    assert group.redrive() == 10
    assert [int(message.body) for message in group.take(100)] == list(range(10))


def test_letters_of_other_groups_and_topics_are_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, dead_letter="graveyard")
    bench.store.topic("orders.eu", dead_letter="graveyard").put(b"of another topic")
    bench.topic.put(b"a", partition=0)
    mine, yours = bench.group(name="mine", attempts_max=1), bench.group(name="yours", attempts_max=1)
    other = QueueGroup(bench.store.topic("orders.eu"), "mine", GroupSettings(mode="queue", attempts_max=1))
    for group in (yours, other, mine):
        fail(group)
    bench.store.topic("graveyard").put(b"no letter at all")

    assert (mine.redrive(), yours.redrive()) == (1, 1)

    assert [message.body for message in mine.take(10)] == [b"a", b"a"]
    assert other.take(10) == []
    assert other.redrive() == 1


def test_letters_of_a_recreated_topic_are_put_back(bench: Bench) -> None:
    bench.topic.put_many([b"a", b"b", b"c"], partition=0)
    group = bench.group(attempts_max=1)
    fail(group)
    assert group.redrive() == 3
    group.ack_many(group.take(10))
    bench.store.delete_topic("orders.dead")
    bench.topic.put(b"d", partition=0)
    fail(group)

    assert group.redrive() == 1
    assert [message.body for message in group.take(10)] == [b"d"]


@pytest.mark.parametrize("limit", [0, -1, "1"])
def test_a_limit_is_a_whole_number(bench: Bench, limit: Any) -> None:
    with pytest.raises(BadInput):
        bench.group().redrive(limit)


def test_without_dead_letters_nothing_is_put_back(bench: Bench) -> None:
    assert bench.group().redrive() == 0


# --- Failures in between ---


@pytest.mark.parametrize("where", ["before", "behind"])
def test_the_next_session_finishes_a_burial(bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    bench.topic.put_many([b"a", b"b"], partition=0)
    group, other = bench.group(attempts_max=1), bench.group(bench.open(), attempts_max=1)
    message = group.take(2)[0]
    with monkeypatch.context() as patch:
        stop_at(patch, where)
        with pytest.raises(Stopped):
            group.nack(message, reason="no luck")
    with pytest.raises(LeaseLost):
        group.ack(message)

    assert other.take(10) == []
    assert group.take(10) == []

    assert [(letter.body, facts(letter)["reason"]) for letter in bench.letters()] == [(b"a", b"no luck")]
    assert group.lag() == {0: 1, 1: 0}


@pytest.mark.parametrize("where", ["before", "behind"])
def test_the_next_session_finishes_putting_letters_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    bench.topic.put(b"a", partition=0)
    bench.topic.put(b"b", partition=1)
    group, other = bench.group(attempts_max=1), bench.group(bench.open(), attempts_max=1)
    fail(group)
    with monkeypatch.context() as patch:
        stop_at(patch, where)
        with pytest.raises(Stopped):
            group.redrive()

    bodies = [message.body for message in other.take(10)]

    assert sorted(bodies) == [b"a", b"b"]
    assert group.redrive() == 0
    assert bench.topic.partition(0).end == bench.topic.partition(1).end == 2


def test_a_burial_is_announced_on_disk_before_it_happens(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk = watched = WatchedDisk()
    bench.store = bench.open()
    bench.topic = bench.store.topic("orders")
    bench.topic.put(b"a")
    group = bench.group(attempts_max=1)
    dead = group.dead.partition(0)
    ends: list[tuple[bool, int]] = []
    watched.on_sync = lambda path: ends.append(("ledger" in path, dead.end))

    fail(group)

    assert ends[0] == (True, 0)
    assert ends[-1] == (True, 1)
    assert (False, 1) in ends


def test_a_letter_that_is_put_back_is_on_disk_before_that_is_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk = watched = WatchedDisk()
    bench.store = bench.open()
    bench.topic = bench.store.topic("orders")
    bench.topic.put(b"a", partition=0)
    group = bench.group(attempts_max=1)
    fail(group)
    syncs: list[tuple[str, int]] = []
    log = bench.topic.partition(0)
    watched.on_sync = lambda path: syncs.append((path.split("/")[-2], log.end))

    group.redrive()

    assert syncs[0] == ("ledger", 1)
    assert ("0", 2) in syncs
    assert syncs[-1] == ("ledger", 2)


def test_a_message_retired_before_its_burial_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, partitions=1, block_size=4096)
    bench.topic.put_many([bytes(500)] * 3)
    group = bench.group(attempts_max=1)
    message = group.take(3)[0]
    with monkeypatch.context() as patch:
        stop_at(patch, "before")
        with pytest.raises(Stopped):
            group.nack(message)
    for _ in range(8):
        bench.topic.put_many([bytes(500)] * 3)
    assert bench.topic.partition(0).retire(before=20) > 3

    group.take(1)

    assert bench.letters() == []
    assert group._leases.burials == {}


@pytest.mark.parametrize("retired", ["before the letters", "before and after the letters", "after the letters"])
@pytest.mark.parametrize("written_max", [1, 100])
def test_a_burial_that_is_finished_later_writes_each_letter_once_if_messages_were_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retired: str, written_max: int
) -> None:
    bench = Bench(tmp_path, partitions=1, block_size=4096)
    for number in range(27):
        bench.topic.put(b"%d" % number + bytes(500))
    group, log = bench.group(attempts_max=1), bench.topic.partition(0)
    assert len(group.take(100)) == 27
    bench.wait(LEASE_S)
    if "before" in retired:
        assert log.retire(before=10) > 3
    first = log.first
    with monkeypatch.context() as patch:
        stop_after_part(patch, written_max)
        with pytest.raises(Stopped):
            group.take(100)
    if "after the" in retired:
        assert log.retire(before=20) > max(first, 3)

    bench.group(bench.open(), attempts_max=1).take(100)

    numbers = [int(facts(letter)["number"]) for letter in bench.letters()]
    assert numbers == sorted({*range(first, 27)[:written_max], *range(log.first, 27)})
    assert group.lag() == {0: 0}


def stop_after_part(monkeypatch: pytest.MonkeyPatch, written_max: int) -> None:
    """The next move of messages stops after it has written up to `written_max` of its batch."""
    append_many = Log.append_many

    def stopping(log: Log, bodies: Sequence[bytes], *, marker: bytes = b"", **columns: Any) -> range:
        part = Batch(bodies, **columns).part(0, min(written_max, len(bodies)))
        append_many(log, **part._asdict(), marker=marker)
        raise Stopped

    monkeypatch.setattr(Log, "append_many", stopping)


@pytest.mark.parametrize("version", [1, 2])
def test_putting_back_that_is_finished_later_omits_no_letter_if_letters_were_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    bench = Bench(tmp_path, partitions=1, version=version)
    for _ in range(80):
        bench.topic.put(b"same")
    dead = bench.store.topic("orders.dead", 1, durability="os", block_size=4096)
    group = bench.group(attempts_max=1)
    fail(group)
    letters = dead.partition(0)
    with monkeypatch.context() as patch:
        stop_after_part(patch, 3)
        with pytest.raises(Stopped):
            group.redrive()
    assert letters.retire(before=70) > 3

    bench.group(bench.open(), attempts_max=1).redrive()

    assert bench.topic.partition(0).end == 80 + 3 + (80 - letters.first)


def test_a_message_that_cannot_be_buried_does_not_block_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.topic.put(b"a", partition=0)
    group = bench.group(attempts_max=1)
    group.take()
    bench.wait(LEASE_S)
    bench.topic.put(b"b", partition=0)

    def full(*args: Any, **options: Any) -> range:
        raise StorageFull("/dead", 1)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append_many", full)
        messages = group.take(10)
        with pytest.raises(StorageFull):
            group.take(10)

    assert [message.body for message in messages] == [b"b"]
    assert group.take(10) == []
    assert [letter.body for letter in bench.letters()] == [b"a"]


def test_an_intent_that_did_not_reach_the_disk_moves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.topic.put(b"a")
    group = bench.group(attempts_max=1)
    message = group.take()
    assert message is not None
    dead = group.dead.partition(0)

    def failing() -> None:
        raise SyncFailed("/ledger", "Input/output error")

    monkeypatch.setattr(group._ledger, "sync", failing)
    with pytest.raises(SyncFailed):
        group.nack(message)

    assert dead.end == 0


# --- One by one ---


def test_letters_are_put_back_by_number_and_no_other(bench: Bench) -> None:
    group = bench.group()
    bench.topic.put_many([b"%d" % number for number in range(6)], partition=0)
    fail(group)
    fail(group)

    first = group.redrive(numbers={0: [1, 4, 4, 99]})
    again = group.redrive(numbers={0: [1, 4]})

    assert (first, again) == (2, 0)
    assert [message.body for message in bench.topic.partition(0).read(6)] == [b"1", b"4"]
    assert group.redrive() == 4
    assert [message.body for message in bench.topic.partition(0).read(8)] == [b"0", b"2", b"3", b"5"]
    assert group.redrive(numbers={0: [0, 1, 2]}) == 0


def test_letters_put_back_by_number_stay_so_for_the_next_session(bench: Bench) -> None:
    group = bench.group()
    bench.topic.put_many([b"%d" % number for number in range(3)], partition=0)
    fail(group)
    fail(group)
    group.redrive(numbers={0: [1]})
    with group._ledger.changing():
        group._ledger._write_snapshot()

    other = bench.group(bench.open())

    assert put_back(bench.topic, "workers").numbers(0, bench.store.topic("orders.dead").partition(0)) == [1]
    assert (other.redrive(numbers={0: [1]}), other.redrive()) == (0, 2)


def test_a_letter_is_put_back_once_if_putting_it_back_by_number_was_cut_off(bench: Bench) -> None:
    bench.disk = disk = WatchedDisk()
    store = bench.open()
    group = bench.group(store)
    store.topic("orders").put_many([b"%d" % number for number in range(3)], partition=0)
    fail(group)
    fail(group)
    log = store.topic("orders").partition(0)
    ends: list[int] = []

    def cut(path: str) -> None:
        if log.end > 3 and not ends:
            ends.append(log.end)
            raise SyncFailed(path, "cut")

    disk.on_sync = cut
    with pytest.raises(SyncFailed):
        group.redrive(numbers={0: [2]})
    disk.on_sync = lambda path: None

    other = bench.group(bench.open())
    assert other.redrive(numbers={0: [2]}) == 0
    assert [message.body for message in other.topic.partition(0).read(3)] == [b"2"]


def test_a_limit_and_numbers_cannot_be_passed_together(bench: Bench) -> None:
    with pytest.raises(BadInput, match="either limit or numbers"):
        bench.group().redrive(1, numbers={0: [1]})
