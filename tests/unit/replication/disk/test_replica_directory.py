from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import warren
from tests.support.replication.replica_pair import ReplicaPair
from warren.errors import CorruptRecord, MasterBroke, StoreReplicated, SyncFailed, UnsupportedByVersion
from warren.message import Message
from warren.replication.changes import CommittedEnds, FileContent, FileGone, FilePatch, LogRange, NewLog
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.replication.epochs import Epoch, Epochs
from warren.storage import Log
from warren.storage.disk.filesystem import SystemFile
from warren.transaction.salvage import Salvage
from warren.transaction.store import Store

LOG = "topics/orders/0"
INDEXED = 4096


def pair_of(tmp_path: Path, *, is_lazy: bool = False, epoch: int = 1) -> ReplicaPair:
    return ReplicaPair(str(tmp_path / "a"), str(tmp_path / "b"), is_lazy=is_lazy, epoch=epoch)


def back(tmp_path: Path, *, epoch: int = 2) -> ReplicaPair:
    """Makes the slave master, and the old master its slave."""
    return ReplicaPair(str(tmp_path / "b"), str(tmp_path / "a"), epoch=epoch)


def stored(path: Path, *, log: str = LOG) -> list[Message]:
    """Returns all records of a log, including those that readers do not see yet."""
    with Log.open(path / log, read_only=True) as opened:
        opened._files.index().shows_all = True
        return opened.read(opened.first, limit=100_000)


def bodies(path: Path, *, log: str = LOG) -> list[bytes]:
    return [message.body for message in stored(path, log=log)]


# --- Identity ---


def test_the_incarnation_of_a_directory_stays(tmp_path: Path) -> None:
    first = ReplicaDirectory(tmp_path / "a")

    assert ReplicaDirectory(tmp_path / "a").incarnation == first.incarnation
    assert ReplicaDirectory(tmp_path / "b").incarnation != first.incarnation


def test_a_new_directory_shares_epoch_0_with_all_others(tmp_path: Path) -> None:
    assert ReplicaDirectory(tmp_path).epochs == Epochs.founded("")


def test_the_list_of_epochs_is_kept(tmp_path: Path) -> None:
    epochs = Epochs.founded("").begun(Epoch(epoch=3, master=1, began="", tails={"a@1": 5}))

    ReplicaDirectory(tmp_path).keep_epochs(epochs)

    assert ReplicaDirectory(tmp_path).epochs == epochs


def test_a_replica_that_starts_from_nothing_is_another_one_and_empty(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put(b"one")
    before = pair.slave.incarnation

    pair.slave.start_from_nothing()

    replica = ReplicaDirectory(tmp_path / "b")
    replica.settle()
    assert replica.incarnation != before
    assert replica.tails() == {}
    assert replica.epochs == Epochs.founded("")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["replication"]


def settled(path: Path) -> ReplicaDirectory:
    directory = ReplicaDirectory(path)
    directory.settle()
    return directory


def test_a_store_with_topics_or_users_and_no_messages_is_not_empty(tmp_path: Path) -> None:
    warren.open(tmp_path / "opened").close()
    with warren.open(tmp_path / "topics") as store:
        store.topic("orders")
    warren.open(tmp_path / "users").close()
    (tmp_path / "users" / "users.json").write_bytes(b"{}")
    cut = settled(tmp_path / "cut")
    cut.cut_logs({LOG: 0}, {})
    cut.close()
    with warren.open(tmp_path / "messages") as store:
        store.topic("orders").put(b"a")
    (tmp_path / "messages" / "topics" / "orders" / "topic.json").unlink()

    empty = {path.name: settled(path).is_empty() for path in tmp_path.iterdir()}

    # A slave may die when it has made the logs of its master and has fetched nothing else.
    assert empty == {"opened": True, "topics": False, "users": False, "cut": True, "messages": False}


def test_the_incarnation_changes_before_anything_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put(b"one")
    before = pair.slave.incarnation

    def killed(path: str) -> None:
        raise KeyboardInterrupt(path)

    monkeypatch.setattr(pair.slave, "_remove_any", killed)
    with pytest.raises(KeyboardInterrupt):
        pair.slave.start_from_nothing()

    assert ReplicaDirectory(tmp_path / "b").incarnation != before


@pytest.mark.parametrize(
    ("durability", "replication", "is_safe"),
    [("commit", "sync", True), ("os", "sync", False), ("os", "async", True), ("commit", "async", True)],
)
def test_only_topics_that_are_in_memory_make_a_replica_unsafe_after_a_power_cut(
    tmp_path: Path, durability: str, replication: str, is_safe: bool
) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders", durability=durability, replication=replication)

    assert pair.slave.is_power_safe is is_safe


# --- Following ---


def test_records_have_the_same_offsets_numbers_and_times_on_both_sides(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders", block_size=64 << 10)
    for number in range(50):
        topic.put(b"%d" % number * 300)
    topic.put_many([b"%d" % number for number in range(5000)], tags=["t"] * 5000)

    assert [(m.number, m.offset, m.timestamp, m.body) for m in stored(tmp_path / "b")] == [
        (m.number, m.offset, m.timestamp, m.body) for m in stored(tmp_path / "a")
    ]
    assert sorted(path.name for path in (tmp_path / "b" / LOG).glob("*.block")) == sorted(
        path.name for path in (tmp_path / "a" / LOG).glob("*.block")
    )


def test_a_slave_that_ends_just_before_an_index_message_gets_what_follows(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    topic = store.topic("orders", block_size=1 << 20)
    # In blocks of this size an index message has entries for so many messages. The next one is before the next record.
    topic.put_many([b"%d" % number for number in range(INDEXED)])
    shutil.copytree(tmp_path / "b", tmp_path / "behind")
    topic.put(b"later")
    store.close()

    ReplicaPair(str(tmp_path / "a"), str(tmp_path / "behind"), epoch=2)

    assert len(bodies(tmp_path / "behind")) == INDEXED + 1
    assert bodies(tmp_path / "behind") == bodies(tmp_path / "a")


def test_a_round_that_was_given_up_can_be_applied_again(tmp_path: Path) -> None:
    with pair_of(tmp_path).open() as store:
        topic = store.topic("orders")
        for number in range(5):
            topic.put(b"%d" % number)
    slave = ReplicaDirectory(tmp_path / "b")
    slave.settle()
    [name] = slave.tails()
    slave.cut_logs({name: 1}, {})
    ranges = ReplicaDirectory(tmp_path / "a").ranges([(name, 1, 5)], 1 << 20)
    assert ranges is not None
    item = ranges.items[0]
    assert isinstance(item, LogRange)
    broken = item._replace(log="topics/gone/0@1")

    with pytest.raises(CorruptRecord, match="not here"):
        slave.apply([item, broken])
    slave.apply([item])

    assert bodies(tmp_path / "b") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_slave_from_nothing_gets_all_records_and_files(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    topic = store.topic("orders", block_size=64 << 10)
    topic.put_many([b"%d" % number * 50 for number in range(3000)])
    topic.group("billing").close()
    shutil.rmtree(tmp_path / "b")
    store.close()

    ReplicaPair(str(tmp_path / "a"), str(tmp_path / "b"), epoch=2)

    assert bodies(tmp_path / "b") == bodies(tmp_path / "a")
    assert (tmp_path / "b" / LOG / "readers" / "billing.reader").read_bytes() == (
        tmp_path / "a" / LOG / "readers" / "billing.reader"
    ).read_bytes()


def test_an_old_master_is_cut_where_it_differs(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, is_lazy=True)
    store = pair.open()
    topic = store.topic("orders", replication="async")
    topic.put(b"both")
    topic.logs[0].sync()
    for number in range(200):
        topic.put(b"only the old master has %d" % number)
    pair.slave.close()
    assert len(bodies(tmp_path / "b")) == 1

    second = back(tmp_path)
    second.open().topic("orders").put(b"of the new master")

    assert bodies(tmp_path / "a") == bodies(tmp_path / "b") == [b"both", b"of the new master"]


def test_an_old_master_gives_up_a_block_that_only_it_has_begun(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, is_lazy=True)
    topic = pair.open().topic("orders", replication="async", block_size=4096)
    topic.put(b"small")
    topic.logs[0].sync()
    topic.put(b"large" * 600)
    topic.put(b"large" * 600)
    pair.slave.close()
    assert len(list((tmp_path / "a" / LOG).glob("*.block"))) > 1

    second = back(tmp_path)
    second.open().topic("orders").put(b"another")

    assert bodies(tmp_path / "a") == bodies(tmp_path / "b") == [b"small", b"another"]


def test_a_log_that_the_new_master_does_not_have_is_removed(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    store.topic("orders").put(b"one")
    pair.filesystem._noted = lambda: None
    Log.open(tmp_path / "other").close()
    shutil.copytree(tmp_path / "other", tmp_path / "a/topics/orders/7")
    pair.slave.close()

    back(tmp_path)

    assert not (tmp_path / "a/topics/orders/7/index").exists()


def test_messages_that_the_master_retires_are_retired_at_the_slave(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders", block_size=4096)
    for number in range(200):
        topic.put(b"%d" % number * 20)
    log = topic.logs[0]

    log.retire(before=100)
    log.retire(before=150, exactly=True)

    assert [m.number for m in stored(tmp_path / "b")] == list(range(150, 200))
    assert len(list((tmp_path / "b" / LOG).glob("*.block"))) == len(list((tmp_path / "a" / LOG).glob("*.block")))
    assert pair.slave.first() == {name: 150 for name in pair.slave.tails() if name.startswith(LOG)}


def test_a_slave_keeps_the_numbers_of_a_log_whose_messages_are_all_retired(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    topic = store.topic("orders", block_size=4096)
    topic.put_many([b"x" * 100] * 100)
    topic.logs[0].retire(before=100, rolls=True)
    assert topic.logs[0].first == topic.logs[0].end == 100
    store.close()
    shutil.rmtree(tmp_path / "b")
    ReplicaPair(str(tmp_path / "a"), str(tmp_path / "b"), epoch=2).slave.close()

    third = back(tmp_path, epoch=3)

    assert third.open().topic("orders").put(b"next").number == 100
    assert [m.number for m in stored(tmp_path / "a")] == [100]


def test_flag_and_extension_of_a_log_are_those_of_the_master(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    log = pair.open().topic("orders").logs[0]
    log.flag = 7
    log.extension = {**log.extension, "colour": "green"}

    with Log.open(tmp_path / "b" / LOG, read_only=True) as copy:
        assert copy.flag == 7
        assert copy.extension["colour"] == "green"


def test_a_log_keeps_its_name_if_its_extension_is_replaced(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders")
    topic.put(b"one")

    topic.logs[0].extension = {"colour": "green"}
    topic.put(b"two")

    assert bodies(tmp_path / "b") == [b"one", b"two"]
    pair.slave.close()
    again = back(tmp_path)
    assert again.open().topic("orders").put(b"three").number == 2
    assert bodies(tmp_path / "a") == [b"one", b"two", b"three"]


def test_deleting_a_topic_deletes_it_at_the_slave_and_one_of_the_same_name_is_another(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    store.topic("orders").put(b"old")

    store.delete_topic("orders")
    assert not (tmp_path / "b/topics/orders").exists()
    store.topic("orders").put(b"new")

    assert bodies(tmp_path / "b") == [b"new"]


def test_a_record_that_does_not_check_is_refused_and_nothing_is_published(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, is_lazy=True)
    topic = pair.open().topic("orders", replication="async")
    topic.put(b"one")
    topic.logs[0].sync()
    topic.put(b"two")
    round = pair.barriers.round(pair.member, 1 << 20)
    assert round is not None
    items = pair.master.filled(round.changes)
    assert items is not None
    broken = bytearray(items[-1].data)  # type: ignore[union-attr]
    broken[-9] ^= 1

    with pytest.raises(CorruptRecord):
        pair.slave.apply([*items[:-1], items[-1]._replace(data=bytes(broken))])  # type: ignore[call-arg]

    assert bodies(tmp_path / "b") == [b"one"]
    pair.slave.apply(items)
    assert bodies(tmp_path / "b") == [b"one", b"two"]


def test_a_range_that_does_not_follow_is_refused(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, is_lazy=True)
    topic = pair.open().topic("orders", replication="async")
    topic.put(b"one")
    topic.logs[0].sync()
    topic.put(b"two")
    topic.put(b"three")
    round = pair.barriers.round(pair.member, 1 << 20)
    assert round is not None
    items = pair.master.filled(round.changes)
    assert items is not None

    with pytest.raises(CorruptRecord):
        pair.slave.apply(items[1:])

    assert bodies(tmp_path / "b") == [b"one"]


def test_damage_that_was_on_disk_is_found_when_a_replica_settles(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    store.topic("orders").put(b"one" * 100)
    pair.slave.close()
    (block,) = (tmp_path / "b" / LOG).glob("*.block")
    data = bytearray(block.read_bytes())
    data[data.index(b"oneone")] ^= 1
    block.write_bytes(data)
    (tmp_path / "b" / LOG / "index").write_bytes((tmp_path / "a" / LOG / "index").read_bytes())

    with pytest.raises(CorruptRecord):
        ReplicaDirectory(tmp_path / "b").settle()


def test_logs_of_version_1_are_not_replicated(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)

    with pytest.raises(UnsupportedByVersion):
        pair.open().topic("old", version=1)
    with pytest.raises(UnsupportedByVersion):
        pair.slave.apply([NewLog("topics/old/0@1", 1)])


def test_state_files_are_changed_replaced_and_removed(tmp_path: Path) -> None:
    replica = ReplicaDirectory(tmp_path)
    replica.settle()

    replica.apply([FileContent("a/b/c", b"hello"), FilePatch("a/b/c", 4, b"p!"), FileContent("d", b"")])
    assert (tmp_path / "a/b/c").read_bytes() == b"hellp!"
    replica.apply([FilePatch("a/b/c", 0, b"H"), CommittedEnds({}), FileGone("d")])
    assert (tmp_path / "a/b/c").read_bytes() == b"Hellp!"
    replica.apply([FileGone("a/b/c")])

    assert not (tmp_path / "a/b").exists()
    assert not (tmp_path / "d").exists()


def test_state_files_that_differ_are_found_and_made_equal(tmp_path: Path) -> None:
    master, slave = ReplicaDirectory(tmp_path / "a"), ReplicaDirectory(tmp_path / "b")
    for replica in (master, slave):
        replica.settle()
    master.apply([FileContent("same", b"1"), FileContent("other", b"1"), FileContent("new", b"1")])
    slave.apply([FileContent("same", b"1"), FileContent("other", b"2"), FileContent("old", b"1")])
    digests = master.digests("")
    assert digests.is_complete

    different, gone = slave.compare_state(digests.digests)
    assert (sorted(different), gone) == (["new", "other"], ["old"])
    slave.write_state({**master.contents(different, 1000), "old": None})

    assert slave.compare_state(digests.digests) == ([], [])
    assert list(master.contents(["new", "other"], 1)) == ["new"]
    assert master.contents(["missing"], 10) == {"missing": None}


def test_a_file_that_was_served_while_it_changed_is_shipped_whole(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    path = tmp_path / "a/file"
    file = pair.filesystem.open(str(path), writable=True, create=True)
    file.write(0, b"old")
    file.sync()
    file.write(0, b"new")
    pair.slave.write_state(pair.master.contents(["file"], 100))
    assert (tmp_path / "b/file").read_bytes() == b"new"

    file.write(0, b"old")
    file.sync()

    assert (tmp_path / "b/file").read_bytes() == b"old"
    assert store.is_replicated


# --- Readers ---


def test_readers_of_a_slave_see_what_is_committed(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders", block_size=4096)
    for number in range(100):
        topic.put(b"%d" % number * 10)
    (name,) = [name for name in pair.slave.tails() if name.startswith(LOG)]
    with Log.open(tmp_path / "b" / LOG, read_only=True) as log:
        assert log.end == 0
        assert log.read(0) == []
        for end in (1, 7, 50, 100):
            pair.slave.show({name: end})

            assert log.end == end
            assert [m.number for m in log.read(0, limit=1000)] == list(range(end))
            assert [m.number for m in log.backwards()] == list(reversed(range(end)))
            assert log.at(end) is None
            assert log.at(end - 1) is not None
            assert log.find_time(2_000_000_000_000_000) == end
            assert sum(batch.num_rows for batch in log.scan()) == end
            assert log.verify().messages == end


def test_a_shown_end_never_goes_back_and_a_master_shows_all(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put_many([b"x"] * 10)
    (name,) = [name for name in pair.slave.tails() if name.startswith(LOG)]

    pair.slave.show({name: 5})
    pair.slave.show({name: 3})
    assert pair.slave.visible()[name] == 5

    pair.slave.serve()
    assert pair.slave.visible()[name] == 10


# --- A store that has replicas ---


def test_a_replicated_store_cannot_be_opened_for_writing_past_its_master(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put(b"one")
    pair.slave.note_master("b.example:9092")
    for name in pair.slave.tails():
        pair.slave.show({name: 1})

    with pytest.raises(StoreReplicated, match=r"b\.example:9092"):
        warren.open(tmp_path / "b")
    with warren.open(tmp_path / "b", read_only=True) as store:
        assert [m.body for m in store.topic("orders").partition(0).read(0)] == [b"one"]


def test_a_repair_refuses_a_replica(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put(b"one")

    with pytest.raises(StoreReplicated):
        Salvage(str(tmp_path / "b")).run()


def test_an_empty_replica_is_not_opened_as_a_new_store(tmp_path: Path) -> None:
    ReplicaDirectory(tmp_path)

    with pytest.raises(warren.errors.NotAStore):
        warren.open(tmp_path)


def test_the_life_of_a_store_changes_with_the_epoch(tmp_path: Path) -> None:
    first = pair_of(tmp_path).open()
    life = first.life
    first.close()

    second = back(tmp_path, epoch=2).open()

    assert second.life != life
    assert second.is_replicated


def test_a_master_whose_sync_fails_must_not_lead_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders")
    topic.put(b"one")

    def fails(self: SystemFile) -> None:
        raise SyncFailed(self.path, "Input/output error")

    monkeypatch.setattr(SystemFile, "sync", fails)
    with pytest.raises(SyncFailed):
        topic.put(b"two")
    monkeypatch.undo()

    assert pair.failures
    with pytest.raises(MasterBroke):
        pair.filesystem.shipping.ask_sync(str(tmp_path / "a" / LOG))


def test_a_put_whose_wait_is_interrupted_must_not_be_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_of(tmp_path)
    topic = pair.open().topic("orders")

    def interrupted(directory: str) -> None:
        raise KeyboardInterrupt(directory)

    monkeypatch.setattr(pair.filesystem.shipping, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        topic.put(b"one")
    monkeypatch.undo()

    assert pair.failures
    with pytest.raises(MasterBroke):
        topic.put(b"two")


def test_facts_that_all_replicas_have_are_not_shipped_again(tmp_path: Path) -> None:
    first = pair_of(tmp_path)
    first.open().topic("orders").put(b"one")
    first.slave.close()
    second = back(tmp_path)
    topic = second.open().topic("orders")
    before = second.barriers.last

    topic.put(b"two")

    assert second.barriers.last == before + 1


def test_puts_of_an_async_topic_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(tmp_path, is_lazy=True)
    store = pair.open()
    waiting = store.topic("waiting")
    quick = store.topic("orders", replication="async")
    waits: list[int] = []
    monkeypatch.setattr(pair.barriers, "wait", waits.append)

    quick.put(b"one")
    assert waits == []
    waiting.put(b"one")
    assert len(waits) == 1


def test_a_slave_can_be_filled_while_it_is_behind_by_more_than_a_round(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    store = pair.open()
    store.topic("orders", block_size=1 << 20).put_many([b"x" * 1000] * 5000)
    (name,) = [name for name in pair.master.tails() or pair.slave.tails() if name.startswith(LOG)]
    ranges: list[tuple[str, int, int]] = [(name, 0, 5000)]
    sent: list[int] = []
    while ranges:
        part = pair.master.ranges(ranges, 300_000)
        assert part is not None
        sizes = [item.size for item in part.items if isinstance(item, LogRange)]
        sent += [item.end for item in part.items if isinstance(item, LogRange)]
        assert sum(sizes[:-1]) < 400_000
        ranges = list(part.left)

    assert sent == sorted(sent)
    assert sent[-1] == 5000
    assert isinstance(store, Store)
