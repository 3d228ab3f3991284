"""Programs that read the directory of a replica see what is committed, and change nothing in it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

import warren
from tests.support.replication.replica_pair import ReplicaPair
from warren.errors import StoreReplicated
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.replication.epochs import Epochs
from warren.storage import Log
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import MESSAGE_COUNT_AT
from warren.transaction.store import Store

LOG = "topics/orders/0"
BLOCK_SIZE = 4096
EPOCHS = 6
PUTS_AN_EPOCH = 30


def pair_of(tmp_path: Path, master: str = "a", slave: str = "b", *, epoch: int = 1) -> ReplicaPair:
    return ReplicaPair(str(tmp_path / master), str(tmp_path / slave), epoch=epoch)


# --- Reads ---


class Reader:
    """Reads the store in every way, again and again, and notes what was shown that is not committed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_over = threading.Event()
        self.committed: list[bytes] = []
        """Longer before more is shown; never shorter."""
        self.faults: list[str] = []
        self.rounds = 0
        self._end = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with warren.open(self._path, read_only=True) as store:
                while not self._is_over.is_set():
                    self.look(store)
                    self.rounds += 1
        except Exception as error:  # noqa: BLE001  # The test shows it.
            self.faults.append(repr(error))

    def look(self, store: Store) -> None:
        topic = store.topic("orders")
        log = topic.partition(0)
        end, (group,) = log.end, topic.describe_group("readers").partitions
        if end < self._end:
            self.faults.append(f"the end went back from {self._end} to {end}")
        self._end = end
        messages = [(m.number, m.body) for m in log.read(0, limit=10_000)]
        messages += [(m.number, m.body) for m in log.backwards()]
        messages += [(m.number, m.body) for m in topic.last(5)]
        messages += [(m.number, m.body) for m in topic.since(0)]
        messages += [(m.number, m.body) for m in topic.between(0, 2_000_000_000_000_000)]
        messages += [(m.number, m.body) for number in {0, max(0, end - 1), end} if (m := log.at(number)) is not None]
        for batch in log.scan(columns=["number", "body"]):
            messages += list(zip(batch["number"].to_pylist(), batch["body"].to_pylist(), strict=True))
        numbers = [number for number, _ in messages] + [
            end - 1,
            group.end - 1,
            log.find_time(2_000_000_000_000_000) - 1,
        ]
        committed = self.committed
        if max(numbers) >= len(committed):
            self.faults.append(f"message {max(numbers)} was shown, and {len(committed)} were committed")
        wrong = [(number, body) for number, body in messages if committed[number : number + 1] != [body]]
        if wrong:
            self.faults.append(f"not committed, and shown: {wrong[0]}")


def test_readers_see_only_what_is_committed_while_a_slave_is_replicated_and_cut_after_fail_overs(
    tmp_path: Path,
) -> None:
    seed = tmp_path / "1"
    with Store(seed, keeps=False) as store:
        topic = store.topic("orders", block_size=BLOCK_SIZE)
        topic.group("readers").close()
    slave = tmp_path / "slave"
    pair = ReplicaPair(str(seed), str(slave))
    pair.open().close()
    (name,) = [name for name in pair.slave.tails() if name.startswith(LOG)]
    pair.slave.show(pair.slave.tails())

    with Reader(slave) as reader:
        for epoch in range(2, EPOCHS + 2):
            # The next master has what was committed. The slave has more from the one before it, and is cut.
            pair.slave.close()
            master = tmp_path / str(epoch)
            pair = ReplicaPair(str(tmp_path / str(epoch - 1)), str(slave), epoch=epoch)
            assert pair.slave.tails()[name] == len(reader.committed)
            topic = pair.open().topic("orders")
            for _ in range(PUTS_AN_EPOCH):
                reader.committed.append(b"%d of epoch %d" % (len(reader.committed), epoch) * 9)
                topic.put(reader.committed[-1])
                pair.slave.show({name: len(reader.committed)})
            topic.store.close()
            pair.master.close()
            shutil.copytree(pair.master.path, master)
            lost = ReplicaPair(pair.master.path, str(slave), epoch=100 + epoch)
            topic = lost.open().topic("orders")
            for _ in range(PUTS_AN_EPOCH):
                topic.put(b"never committed" * 9)
            assert lost.slave.tails()[name] == len(reader.committed) + PUTS_AN_EPOCH
            pair = lost

    assert reader.faults == []
    assert reader.rounds > EPOCHS


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_recovery_shows_no_record_that_a_master_laid_and_did_not_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool
) -> None:
    topic = pair_of(tmp_path).open().topic("orders")
    topic.put_many([b"x"] * 5)
    topic.put_many([b"laid, and not published"] * 5)
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    index_path = tmp_path / "c" / LOG / "index"
    index = bytearray(index_path.read_bytes())
    index[MESSAGE_COUNT_AT : MESSAGE_COUNT_AT + 8] = (5).to_bytes(8, "little")
    index_path.write_bytes(index)

    if is_killed:
        # The process ends as soon as the recovery has written the index.
        def ends(files: LogFiles) -> None:
            raise SystemExit

        killed = ReplicaDirectory(tmp_path / "c")
        with monkeypatch.context() as patch:
            patch.setattr(LogFiles, "vouch", ends)
            with pytest.raises(SystemExit):
                killed.settle()
    replica = ReplicaDirectory(tmp_path / "c")
    replica.settle()

    assert 10 in replica.tails().values()
    with Log.open(tmp_path / "c" / LOG, read_only=True) as log:
        assert [message.body for message in log.read(0, limit=100)] == [b"x"] * 5


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_replica_whose_index_is_lost_shows_nothing_until_it_hears_what_is_committed(
    tmp_path: Path, damage: str
) -> None:
    pair = pair_of(tmp_path)
    pair.open().topic("orders").put_many([b"x"] * 5)
    pair.slave.close()
    index_path = tmp_path / "b" / LOG / "index"
    if damage == "gone":
        index_path.unlink()
    else:
        index = bytearray(index_path.read_bytes())
        index[MESSAGE_COUNT_AT + 8] ^= 1
        index_path.write_bytes(index)

    slave = ReplicaDirectory(tmp_path / "b")
    slave.settle()
    with Log.open(tmp_path / "b" / LOG, read_only=True) as log:
        assert log.end == 0
        assert log.read(0) == []

        slave.show(dict.fromkeys(slave.tails(), 4))

        assert len(log.read(0)) == 4


def test_a_replica_that_begins_in_the_middle_of_a_log_shows_no_end_before_its_first_message(tmp_path: Path) -> None:
    with Store(tmp_path / "a", keeps=False) as store:
        topic = store.topic("orders", block_size=BLOCK_SIZE, retention_bytes=BLOCK_SIZE)
        for _ in range(100):
            topic.put(b"x" * 200)
        topic.retire()
    pair = pair_of(tmp_path)
    (name,) = [name for name in pair.slave.tails() if name.startswith(LOG)]

    with Log.open(tmp_path / "b" / LOG, read_only=True) as log:
        first = log.first
        assert 0 < first <= log.end < 100
        assert log.last(5) == log.read(first) == []
        assert next(log.scan(), None) is None

        pair.slave.show({name: 100})

        assert [message.number for message in log.read(first)] == list(range(first, 100))


# --- Refused calls ---


@pytest.mark.parametrize("log", [LOG, "transactions"])
@pytest.mark.parametrize("replica", ["a", "b"])
@pytest.mark.parametrize("option", ["", "exclusive", "repair"])
def test_a_log_of_a_replica_is_not_opened_for_writing(tmp_path: Path, replica: str, log: str, option: str) -> None:
    pair = pair_of(tmp_path)
    with pair.open() as store:
        store.topic("orders").put(b"one")
    for directory in (pair.master, pair.slave):
        directory.note_master("a.example:9092")
        directory.close()

    with pytest.raises(StoreReplicated, match=r"its master is at a\.example:9092") as refused:
        Log.open(tmp_path / replica / log, exclusive=option == "exclusive", repair=option == "repair")

    assert refused.value.path == str(tmp_path / replica)


def test_a_log_outside_a_replica_may_be_written(tmp_path: Path) -> None:
    ReplicaDirectory(tmp_path / "a").keep_epochs(Epochs.founded(""))

    with Log.open(tmp_path / "log") as log:
        assert log.append(b"one").number == 0
