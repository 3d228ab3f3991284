"""A store and its topics: created, opened again, configured, deleted; directories that are no store are refused."""

from __future__ import annotations

import gc
import json
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.errors import (
    BadInput,
    BadName,
    CorruptSettings,
    NoSuchGroup,
    NoSuchPartition,
    NoSuchTopic,
    NotALog,
    NotAStore,
    SettingsDiffer,
    StoreClosed,
    TooLarge,
)
from warren.queue.store import RETENTION_LOOK_S, Store
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.disk.filesystem import SystemFileSystem

BAD_NAMES = ["", ".", "..", "a/b", "../up", "/root", ".hidden", "a b", "ä", "a\0", "x" * 250, "a\n"]


def test_a_missing_store_is_created_and_keeps_its_id(tmp_path: Path) -> None:
    with quick_store(tmp_path / "new" / "data") as store:
        id = store.id

    with quick_store(tmp_path / "new" / "data") as store:
        assert store.id == id
        assert store.topics() == []


def test_a_directory_with_other_files_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"beach")

    with pytest.raises(NotAStore, match=r"holiday\.jpg"):
        quick_store(tmp_path)

    assert os.listdir(tmp_path) == ["holiday.jpg"]


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(NotAStore, match="it is a file"):
        quick_store(tmp_path / "file")


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    quick_store(tmp_path).close()
    (tmp_path / "store.json").write_text('{"version": 99, "id": "x"}')

    with pytest.raises(NotAStore, match="version 99"):
        quick_store(tmp_path)


def test_unreadable_settings_are_an_error(tmp_path: Path) -> None:
    quick_store(tmp_path).close()
    (tmp_path / "store.json").write_text("{")

    with pytest.raises(CorruptSettings, match=r"store\.json"):
        quick_store(tmp_path)


def test_a_closed_store_raises(tmp_path: Path) -> None:
    store = quick_store(tmp_path)
    topic = store.topic("orders")
    store.close()
    store.close()

    for call in (store.topics, lambda: store.topic("orders"), lambda: topic.put(b"x"), store.keep):
        with pytest.raises(StoreClosed, match=r"warren\.open"):
            call()


def test_a_closed_store_holds_no_file(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(3):
            with quick_store(tmp_path) as store:
                store.topic("orders").put(b"one")
                store.queue("jobs").put(1)

        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


# --- Topics ---


def test_a_topic_is_made_on_first_use_and_found_again(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders", partitions=3).put(b"one", partition=2)

    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        assert topic.partition_count == 3
        assert [message.body for message in topic.partition(2).read(0)] == [b"one"]
        assert store.topics() == ["orders"]
        assert store.topic("orders") is topic


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_and_makes_nothing(tmp_path: Path, name: str) -> None:
    with quick_store(tmp_path / "data") as store:
        for call in (store.topic, store.has_topic, store.delete_topic, store.existing_topic):
            with pytest.raises(BadName):
                call(name)

        assert store.topics() == []
        assert os.listdir(tmp_path) == ["data"]


def test_a_name_of_249_bytes_is_taken(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("x" * 249).put(b"one")

        assert store.topics() == ["x" * 249]


@pytest.mark.parametrize("name", [7, None, b"orders", ["orders"], {}])
def test_a_name_that_is_not_text_is_refused(tmp_path: Path, name: object) -> None:
    with quick_store(tmp_path) as store, pytest.raises(BadName):
        store.topic(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"partitions": 0}, "partitions: expected a whole number from 1 to 1000, not 0"),
        ({"partitions": 1001}, "partitions"),
        ({"partitions": True}, "partitions"),
        ({"version": 3}, "version"),
        ({"durability": "maybe"}, "durability"),
        ({"durability": 5}, "durability"),
        ({"block_size": 1}, "block_size"),
        ({"compression": "rar"}, "compression"),
        ({"version": 1, "compression": "zstd"}, "compression"),
        ({"message_size_max": -1}, "message_size_max"),
        ({"retention_age_s": 0}, "retention_age_s"),
        ({"retention_age_s": True}, "retention_age_s"),
        ({"retention_age_s": "1d"}, "retention_age_s"),
        ({"retention_bytes": 0}, "retention_bytes"),
        ({"retention_consumed": 1}, "retention_consumed"),
        ({"dead_letter": "a/b"}, "dead-letter"),
        ({"deliver_at": "some"}, "deliver_at: expected one of none, plain, all, not 'some'"),
        ({"deliver_at": True}, "deliver_at"),
        ({"colour": "red"}, "there is no setting 'colour'; there are partitions"),
    ],
)
def test_bad_settings_are_refused_and_make_nothing(tmp_path: Path, settings: dict[str, object], reason: str) -> None:
    with quick_store(tmp_path) as store:
        with pytest.raises(BadInput, match=reason):
            store.topic("orders", **settings)  # type: ignore[arg-type]

        assert store.topics() == []


def test_defaults_are_those_of_new_topics(tmp_path: Path) -> None:
    with quick_store(tmp_path, defaults={"durability": "os", "partitions": 2}) as store:
        assert store.topic("orders").settings.durability == "os"
        assert store.topic("orders").partition_count == 2
        assert store.topic("audit", durability="commit").settings.durability == "commit"


def test_bad_defaults_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="durability"):
        quick_store(tmp_path, defaults={"durability": "never"})


def test_a_topic_is_not_opened_with_settings_that_are_not_its_own(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders", partitions=2)

        store.topic("orders", partitions=2, durability="commit")
        with pytest.raises(SettingsDiffer, match=r"partitions=2, not 3; change it with topic\.configure\(\)"):
            store.topic("orders", partitions=3)
        with pytest.raises(SettingsDiffer, match="durability='commit', not 'os'"):
            store.topic("orders", durability="os")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lease", 60.0),
        ("attempts_max", 2),
        ("backoff", 7.0),
        ("backoff_max", 70.0),
        ("ordered_by_key", True),
        ("tag", "eu.*"),
    ],
)
def test_a_group_is_not_opened_with_settings_that_are_not_its_own(tmp_path: Path, option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        before = topic.group("workers", mode="queue", attempts_max=3).settings

        with pytest.raises(SettingsDiffer, match=rf"{option}=.*not .*; change it with topic\.configure_group\(\)"):
            topic.group("workers", mode="queue", **options)
        with pytest.raises(BadInput, match=r"lease: expected seconds from 0.05 to 604800, not -1"):
            topic.group("workers", mode="queue", lease=-1.0)

        assert topic.group("workers", mode="queue", attempts_max=3, tag=None).settings == before
        assert topic.group_settings("workers") == before


def test_settings_of_a_group_are_changed_on_purpose(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        topic.group("workers", mode="queue", tag="eu.*", lease=10.0, start="end").close()

        changed = topic.configure_group("workers", lease=20.0, tag=None)

        assert (changed.lease_s, changed.tag, changed.start, changed.mode) == (20.0, None, "end", "queue")
        assert topic.group("workers", mode="queue", lease=20.0).settings == changed
        assert topic.group_settings("workers") == changed
        with pytest.raises(NoSuchGroup):
            topic.configure_group("missing", lease=20.0)
        with pytest.raises(BadInput, match="there is no option 'mode'; there are tag, start"):
            topic.configure_group("workers", mode="stream")  # type: ignore[call-arg]
        with pytest.raises(BadInput, match=r"lease: expected seconds .*, not 0"):
            topic.configure_group("workers", lease=0.0)


def test_the_start_of_an_existing_group_is_ignored(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        topic.group("workers", mode="queue", start="end").close()

        assert topic.group("workers", mode="queue", start="start").settings.start == "end"


def test_a_topic_file_from_before_a_setting_existed_is_read_with_its_default(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders", deliver_at="all")
    path = tmp_path / "topics" / "orders" / "topic.json"
    data = json.loads(path.read_text())
    del data["deliver_at"]
    path.write_text(json.dumps(data | {"of_a_later_release": 1}))

    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        before = topic.settings.deliver_at
        topic.configure(deliver_at="plain")

    with quick_store(tmp_path) as store:
        assert (before, store.topic("orders").settings.deliver_at) == (None, "plain")


def test_configure_changes_the_stored_settings(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        topic.put(b"one")

        topic.configure(durability="os", retention_age_s=60.0, message_size_max=10)

        topic.put(b"two")
        with pytest.raises(TooLarge):
            topic.put(b"x" * 11)
        with pytest.raises(TooLarge):
            topic.put_many([b"x" * 11])
        assert [message.body for message in topic.partition(0).read(0)] == [b"one", b"two"]
    with quick_store(tmp_path) as store:
        settings = store.topic("orders").settings
        assert (settings.durability, settings.retention_age_s, settings.message_size_max) == ("os", 60.0, 10)
    data = json.loads((tmp_path / "topics" / "orders" / "topic.json").read_text())
    assert data["id"]
    assert data["created"]


def test_partitions_can_be_added_and_never_removed(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store, quick_store(tmp_path) as other:
        topic, same = store.topic("orders", partitions=2), other.topic("orders")
        topic.put(b"one", partition=1)

        topic.configure(partitions=4)

        topic.put(b"two", partition=3)
        assert topic.partition_count == 4
        with pytest.raises(BadInput, match="but not removed"):
            topic.configure(partitions=3)
        with pytest.raises(BadInput, match="cannot be changed"):
            topic.configure(version=1)
        with pytest.raises(NoSuchPartition, match="partitions 0 to 3"):
            topic.put(b"x", partition=4)
        same.refresh()
        assert [message.body for message in same.last(2)] == [b"one", b"two"]


def test_a_description_has_the_facts_of_the_topic(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store, quick_store(tmp_path, clock=clock) as other:
        topic = store.topic("orders", partitions=2, durability="os")
        assert (topic.describe().messages, topic.describe().updated) == (0, 0)
        topic.put_many([b"x" * 100] * 3, partition=1)
        topic.group("billing").close()
        other.topic("orders").configure(partitions=3)

        description = store.describe("orders")

        assert (description.topic, description.messages, list(description.groups)) == ("orders", 3, ["billing"])
        assert [(part.partition, part.first, part.end) for part in description.partitions] == [
            (0, 0, 0),
            (1, 0, 3),
            (2, 0, 0),
        ]
        assert description.settings.partitions == 3
        assert description.bytes >= 300
        assert description.updated == clock.now_ns() // 1000
        with pytest.raises(NoSuchTopic):
            store.describe("nothing")


def test_a_deleted_topic_no_longer_exists_for_every_process(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store, quick_store(tmp_path) as other:
        store.topic("orders").put(b"one")
        open_elsewhere = other.topic("orders")
        open_elsewhere.put(b"two")

        store.delete_topic("orders")

        assert store.topics() == other.topics() == []
        assert os.listdir(tmp_path / "topics") == []
        for call in (
            lambda: open_elsewhere.put(b"lost"),
            lambda: open_elsewhere.put_many([b"lost"]),
            lambda: store.delete_topic("orders"),
            lambda: store.existing_topic("orders"),
        ):
            with pytest.raises(NoSuchTopic):
                call()
        assert other.topic("orders").last(5) == []
        other.topic("orders").put(b"new")
        assert [message.body for message in store.topic("orders").last(5)] == [b"new"]


def test_a_topic_that_another_process_deleted_is_let_go(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store, quick_store(tmp_path, clock=clock) as other:
        for name in ("gone", "kept", "again"):
            store.topic(name).put(b"one")
            store.topic(name).put(b"later", delay=0.0)
        store.keep()
        topics = {name: weakref.ref(store.topic(name)) for name in ("gone", "kept", "again")}
        other.delete_topic("gone")
        other.delete_topic("again")
        other.topic("again").put(b"new")

        clock.sleep(RETENTION_LOOK_S)
        store.keep()
        gc.collect()

        assert topics["gone"]() is None
        assert topics["kept"]() is store.topic("kept")
        assert [message.body for message in store.topic("again").last(5)] == [b"new"]
        assert store.topics() == ["again", "kept"]


def test_a_topic_that_is_deleted_while_retention_looks_at_it_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_store(tmp_path) as store, quick_store(tmp_path) as other:
        other.topic("orders", retention_consumed=True).put(b"one")
        read = store._read_settings

        def read_before_the_deletion(name: str) -> Any:
            settings = read(name)
            with suppress(NoSuchTopic):
                other.delete_topic(name)
            return settings

        monkeypatch.setattr(store, "_read_settings", read_before_the_deletion)
        store.keep()

        assert os.listdir(tmp_path / "topics") == []


def test_a_topic_that_is_deleted_during_its_lookup_is_not_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_store(tmp_path) as store:
        monkeypatch.setattr(store, "has_topic", lambda name: True)

        with pytest.raises(NoSuchTopic):
            store.existing_topic("orders")

        assert os.listdir(tmp_path / "topics") == []


def test_retention_reports_a_damaged_log_of_a_topic_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(topic: Topic) -> None:
        raise NotALog(topic.directory, "it has no index")

    with quick_store(tmp_path) as store:
        store.topic("orders", retention_consumed=True)
        monkeypatch.setattr(Topic, "retire", damaged)

        with pytest.raises(NotALog):
            store._retire()


class HidingFileSystem(SystemFileSystem):
    """Keeps a file that this process has open or mapped under a hidden name until it is closed, as FUSE and NFS do."""

    def __init__(self) -> None:
        self.hidden: dict[str, int] = {}

    def remove(self, path: str) -> None:
        inode = os.stat(path).st_ino
        if self._is_open(inode):
            hidden = os.path.join(os.path.dirname(path), f".hidden-{inode}")
            os.rename(path, hidden)
            self.hidden[hidden] = inode
        else:
            super().remove(path)

    def remove_directory(self, path: str) -> None:
        for hidden, inode in list(self.hidden.items()):
            if not self._is_open(inode):
                del self.hidden[hidden]
                with suppress(FileNotFoundError):
                    os.remove(hidden)
        super().remove_directory(path)

    def _is_open(self, inode: int) -> bool:
        maps = Path("/proc/self/maps").read_text().splitlines()
        if any(line.split()[4] == str(inode) for line in maps):
            return True
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.stat(f"/proc/self/fd/{name}").st_ino == inode:
                    return True
        return False


def test_a_topic_is_deleted_although_open_files_keep_their_names(tmp_path: Path) -> None:
    disk = HidingFileSystem()
    with Store(tmp_path, keeps=False, filesystem=disk) as store:
        topic = store.topic("orders", partitions=2)
        for partition in (0, 1):
            topic.put(b"now", partition=partition)
        topic.put(b"later", delay=100.0)
        with topic.group("workers", mode="queue") as group:
            group.take(10)
        del topic, group

        store.delete_topic("orders")

        assert store.topics() == []
        assert os.listdir(tmp_path / "topics") == []


def test_a_topic_whose_files_other_processes_have_open_is_deleted(tmp_path: Path) -> None:
    disk = HidingFileSystem()
    with Store(tmp_path, keeps=False, filesystem=disk) as store:
        store.topic("orders").put(b"old")
        block = next((tmp_path / "topics" / "orders" / "0").glob("*.block"))
        with block.open("rb"):
            store.delete_topic("orders")

            assert store.topics() == []
        assert store.topic("orders").put(b"new").number == 0


def test_files_that_a_deletion_left_do_not_come_back(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders").put(b"old")
    (tmp_path / "topics" / "orders" / "topic.json").unlink()

    with quick_store(tmp_path) as store:
        assert store.topics() == []
        assert store.topic("orders").last(1) == []


def test_settings_of_a_later_release_are_left_alone(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders")
    path = tmp_path / "topics" / "orders" / "topic.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "red"}))

    with quick_store(tmp_path) as store:
        store.topic("orders").configure(durability="os")

    assert json.loads(path.read_text())["colour"] == "red"


# --- Retention ---


def filled(store: Store, **settings: object) -> None:
    topic = store.topic("orders", durability="os", block_size=4096, **settings)  # type: ignore[arg-type]
    for _ in range(40):
        topic.put(b"x" * 500)


def test_too_old_messages_are_retired(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        filled(store, retention_age_s=100.0)
        clock.sleep(60)
        topic = store.topic("orders")
        topic.put(b"young")
        store.keep()
        assert topic.partition(0).first == 0

        clock.sleep(60)
        store.keep()

        assert topic.partition(0).first == 40
        assert topic.last(1)[0].body == b"young"


def test_bytes_over_the_limit_are_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        filled(store, retention_bytes=10_000)
        log = store.topic("orders").partition(0)

        store.keep()

        sizes = [block.end_offset - block.base_offset for block in log.inspect().blocks]
        assert log.first > 0
        assert sum(sizes) >= 10_000 > sum(sizes[1:])


def test_a_damaged_topic_keeps_no_other_from_retention(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("damaged", durability="os")
        filled(store, retention_bytes=10_000)
        (tmp_path / "topics" / "damaged" / "topic.json").write_text("{")

        store.keep()

        assert store.topic("orders").partition(0).first > 0


def test_messages_that_every_group_has_consumed_are_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        filled(store, retention_consumed=True)
        log = store.topic("orders").partition(0)
        store.keep()
        assert log.first == 0
        fast, slow = log.reader("fast"), log.reader("slow")
        fast.read(limit=40)
        fast.commit()
        slow.read(limit=20)
        slow.commit()

        store.keep()

        assert log.first == 20


def disk_size(log: Log) -> int:
    """How many bytes the blocks of a log take on disk."""
    return sum(path.stat().st_blocks * 512 for path in Path(log.path).glob("*.block"))


@pytest.mark.parametrize("durability", ["os", "commit", "interval:1s"])
def test_a_small_topic_keeps_nothing_that_is_too_old_and_frees_its_space(tmp_path: Path, durability: str) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        topic = store.topic("t", retention_age_s=1.0, durability=durability)
        topic.put_many([b"x" * 1000] * 1000)
        log = topic.partition(0)
        before = disk_size(log)
        clock.sleep(2.5)

        topic.retire()

        assert (log.first, log.end) == (1000, 1000)
        assert topic.last(5) == []
        assert disk_size(log) < before / 2
        assert topic.put(b"next").number == 1000
        assert [message.body for message in topic.last(5)] == [b"next"]
    with quick_store(tmp_path, clock=clock) as store:
        assert [message.number for message in store.topic("t").last(5)] == [1000]


def test_old_messages_of_a_mixed_block_are_hidden_immediately_and_freed_later(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        topic = store.topic("t", retention_age_s=10.0, durability="os")
        log = topic.partition(0)
        for _ in range(10):
            topic.put_many([b"x" * 1000] * 100)
            clock.sleep(2.0)

            topic.retire()

            times = [message.timestamp for message in log.read(log.first, limit=10_000)]
            assert all(time >= clock.now_ns() // 1000 - 10_000_000 for time in times)
            assert len(times) == 100 * sum(1 for _ in set(times))
        clock.sleep(10.1)
        topic.retire()

        assert (log.first, log.end) == (1000, 1000)
        # Ended about once in the retention time, not with every check.
        assert log.inspect().blocks[-1].number <= 3


def test_all_acknowledged_messages_are_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("jobs", retention_consumed=True, durability="os")
        log = topic.partition(0)
        topic.put_many([b"x" * 1000] * 1000)
        with topic.group("workers", mode="queue") as work:
            work.ack_many(work.take(999))
            last = work.take()
        topic.retire()
        assert (log.first, log.end) == (999, 1000)
        with topic.group("workers", mode="queue") as work:
            assert last is not None
            work.ack(last)

        topic.retire()

        assert (log.first, log.end) == (1000, 1000)
        assert disk_size(log) < 200_000
        topic.put(b"next")
        with topic.group("workers", mode="queue") as work:
            assert [message.body for message in work.take(10)] == [b"next"]


def test_messages_that_an_idle_worker_has_acknowledged_are_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("jobs", retention_consumed=True, durability="os")
        log = topic.partition(0)
        work = topic.group("workers", mode="queue")
        topic.put_many([b"x"] * 10)
        messages = work.take(10)

        work.ack_many(messages[:9])
        topic.retire()
        firsts = [log.first]
        work.ack(messages[9])
        topic.retire()
        firsts.append(log.first)

        assert firsts == [9, 10]


def test_a_stream_group_that_has_read_everything_continues_after_retired_messages(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("jobs", retention_consumed=True, durability="os")
        topic.put_many([b"x"] * 100)
        group = topic.group("billing")
        assert len(group.read(limit=100)) == 100
        group.commit()

        topic.retire()
        topic.put(b"next")

        assert topic.partition(0).first == 100
        assert [message.body for message in group.read()] == [b"next"]
        assert group.lag() == {0: 1}


def test_a_durable_queue_continues_after_retired_messages(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store, quick_store(tmp_path) as other:
        queue, theirs = store.queue("jobs"), other.queue("jobs")
        for round in range(5):
            for number in range(10):
                queue.put(round * 10 + number)
            assert [theirs.get(timeout=1) for _ in range(10)] == list(range(round * 10, round * 10 + 10))
            store.topic("jobs").retire()
            assert store.topic("jobs").partition(0).first == round * 10 + 10
        assert queue.empty()


def test_a_topic_takes_about_twice_the_bytes_it_keeps_at_most(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("t", retention_bytes=100_000, durability="os")
        log = topic.partition(0)
        for _ in range(100):
            topic.put_many([b"x" * 1000] * 10)
            topic.retire()

            size = sum(block.end_offset - block.base_offset for block in log.inspect().blocks)
            assert size <= 2 * 100_000 + 20_000
            assert size >= min(100_000, 10_000 * log.end // 10)


def test_in_version_1_the_last_block_stays(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        topic = store.topic("t", retention_age_s=1.0, version=1)
        topic.put(b"old")
        clock.sleep(10)

        topic.retire()

        assert [message.body for message in topic.last(5)] == [b"old"]


def test_without_rules_nothing_is_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        filled(store)

        store.keep()

        assert store.topic("orders").partition(0).first == 0
