"""Retiring exactly: messages before a number are removed for all readers, at any place in a block."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from tests.support.simulated_disk import SimulatedFileSystem
from warren.errors import NumberRetired, StorageFull, TooLarge, UnsupportedByVersion
from warren.storage import START, Log
from warren.storage.disk.index import FIRST_KEY
from warren.transaction.store import Store

PER_BLOCK = 4
COUNT = 22


def filled(path: Path, **options: object) -> Log:
    """22 messages, four to a block, and so six blocks."""
    log = quick_log(path, block_size=4096, **options)
    append(log, COUNT)
    return log


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(b"%04d" % log.end * 200)


def bases(log: Log) -> list[int]:
    return [block.base_number for block in log.inspect().blocks]


@pytest.mark.parametrize(("before", "blocks_gone"), [(1, 0), (4, 1), (5, 1), (19, 4), (20, 5), (21, 5), (22, 5)])
def test_the_log_starts_with_the_very_number(tmp_path: Path, before: int, blocks_gone: int) -> None:
    with filled(tmp_path) as log, quick_log(tmp_path, read_only=True) as follower:
        assert log.retire(before=before, exactly=True) == before

        for opened in (log, follower):
            assert [message.number for message in opened.read(before)] == list(range(before, COUNT))
            assert [message.number for message in opened.backwards()] == list(range(COUNT - 1, before - 1, -1))
            assert sum(batch.num_rows for batch in opened.scan()) == COUNT - before
            assert opened.find_time(0) == before
            for ask in (opened.at, opened.read):
                with pytest.raises(NumberRetired) as caught:
                    ask(before - 1)
                assert caught.value.first == before
        assert bases(log)[0] == blocks_gone * PER_BLOCK
        assert log.verify().messages == COUNT - before
        assert log.append(b"next").number == COUNT


@pytest.mark.parametrize(("before", "first"), [(-1, 6), (0, 6), (5, 6), (6, 6), (10**9, COUNT)])
def test_retired_messages_stay_retired_and_later_ones_are_not_affected(tmp_path: Path, before: int, first: int) -> None:
    with filled(tmp_path) as log:
        log.retire(before=6, exactly=True)

        assert log.retire(before=before, exactly=True) == first
        append(log, 2)
        assert [message.number for message in log.read(first)] == list(range(first, COUNT + 2))


def test_the_first_number_survives_closing_and_a_rewrite_of_the_index(tmp_path: Path) -> None:
    with filled(tmp_path, max_block_count=6) as log:
        log.retire(before=2, exactly=True)
        log.extension = {"topic": "orders"}
        append(log, 5)
        assert log.inspect().max_block_count == 12
        assert log.first == 2

    with quick_log(tmp_path, block_size=4096) as log:
        assert (log.recovery, log.first, log.extension["topic"]) == (None, 2, "orders")


def test_a_block_without_visible_messages_is_removed_by_the_next_retirement(tmp_path: Path) -> None:
    with Store(tmp_path, keeps=False) as store:
        topic = store.topic("orders", block_size=4096)
        log = topic.partition(0)
        append(log, PER_BLOCK)
        log.retire(before=PER_BLOCK, exactly=True)
        assert bases(log) == [0]

        topic.retire()

        assert (bases(log), log.first, log.end) == ([PER_BLOCK], PER_BLOCK, PER_BLOCK)
        append(log, 1)
        assert [message.number for message in log.read(PER_BLOCK)] == [PER_BLOCK]


def test_if_nothing_is_to_be_retired_another_writer_is_not_waited_for(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        log.retire(before=5, exactly=True)
        log.close()
    reader = quick_log(tmp_path)
    with quick_log(tmp_path, exclusive=True) as writer:
        append(writer, 1)

        assert reader.retire(before=5) == reader.retire(before=5, exactly=True) == 5
    reader.close()


def test_a_reader_that_retention_overtook_gets_an_error(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        reader = log.reader("billing")
        log.retire(before=3, exactly=True)

        with pytest.raises(NumberRetired):
            reader.read()
        assert reader.seek(START) == 3
        assert [message.number for message in reader.read(2)] == [3, 4]
        assert log.reader("audit").position == 3


def test_a_damaged_note_hides_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        log.retire(before=2, exactly=True)
    data = (tmp_path / "index").read_bytes()
    place = data.index(FIRST_KEY.encode()) + len(FIRST_KEY)
    assert data[place : place + 2] == b"2 "
    (tmp_path / "index").write_bytes(data[:place] + b"3" + data[place + 1 :])

    with quick_log(tmp_path, block_size=4096) as log:
        assert log.recovery is not None
        assert (log.first, log.verify().messages) == (0, COUNT)


@pytest.mark.parametrize("damaged", [0, 3])
def test_after_a_repair_that_cuts_hidden_messages_new_ones_are_visible(tmp_path: Path, damaged: int) -> None:
    with quick_log(tmp_path) as log:
        append(log, 10)
        log.retire(before=8, exactly=True)
        block = Path(log.inspect().blocks[0].path)
    with block.open("r+b") as file:
        file.seek(block.read_bytes().index(b"%04d" % damaged))
        file.write(b"9999")

    with quick_log(tmp_path, repair=True) as log:
        assert (log.first, log.end, FIRST_KEY in log.extension) == (damaged, damaged, damaged > 0)
        assert log.append(b"next").number == damaged
        assert [message.body for message in log.read(damaged)] == [b"next"]


def test_if_the_index_has_no_room_for_the_note_nothing_changes(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        log.extension = {"x": "y" * 912}

        with pytest.raises(TooLarge):
            log.retire(before=2, exactly=True)

        assert log.first == 0
        append(log, 1)
        assert log.verify().messages == COUNT + 1


def test_version_1_cannot_retire_exactly(tmp_path: Path) -> None:
    with filled(tmp_path, version=1) as log:
        with pytest.raises(UnsupportedByVersion):
            log.retire(before=5, exactly=True)
        assert log.first == 0


# --- The last block ---


@pytest.mark.parametrize("durability", ["os", "commit", "interval:1s"])
def test_the_last_block_goes_and_writers_of_other_processes_continue_in_the_next(
    tmp_path: Path, durability: str
) -> None:
    with (
        quick_log(tmp_path, durability=durability) as log,
        quick_log(tmp_path, durability=durability) as other,
        quick_log(tmp_path, read_only=True) as follower,
    ):
        for round in range(5):
            end = log.end
            append(other, 2)
            log.append_many([b"x"] * 3)
            assert [message.number for message in follower.read(end)] == list(range(end, end + 5))

            assert log.retire(before=end + 5, rolls=True) == end + 5

            assert [each.first for each in (log, other, follower)] == [end + 5] * 3
            assert [each.end for each in (log, other, follower)] == [end + 5] * 3
            assert bases(log) == [end + 5]
            assert len(list(tmp_path.glob("*.block"))) == 1
            # Nothing to end any more.
            assert log.retire(before=end + 5, rolls=True) == end + 5
            assert log.inspect().blocks[-1].number == round + 1
        append(other, 1)
        append(log, 1)
        assert [message.number for message in follower.read(25)] == [25, 26]
    with quick_log(tmp_path) as log:
        assert (log.first, log.end) == (25, 27)


def test_a_last_block_with_messages_to_keep_is_ended_and_kept(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        assert log.retire(before=21, rolls=True) == 20
        append(log, 1)

        assert bases(log) == [20, 22]
        assert [message.number for message in log.read(20)] == [20, 21, 22]


def test_in_version_1_the_last_block_cannot_be_ended(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1) as log:
        log.append(b"x")

        with pytest.raises(UnsupportedByVersion):
            log.retire(before=1, rolls=True)


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("room", range(0, 24_000, 400))
def test_a_full_disk_while_the_last_block_is_ended_loses_nothing(room: int, exactly: bool) -> None:
    disk = SimulatedFileSystem(seed=room)
    log, other = (
        Log.open("/log", durability="os", filesystem=disk, block_size=16_384, max_block_count=16) for _ in range(2)
    )
    bodies = [b"%d" % number * 1400 for number in range(10)] + [b"10", b"11", b"12"]
    log.append_many(bodies[:10])
    other.append(bodies[10])
    disk.size_max = room + sum(disk.open(f"/log/{name}", writable=False).size() for name in disk.names("/log"))

    with suppress(StorageFull):
        log.retire(before=5, rolls=True, exactly=exactly)
    disk.size_max = None
    receipts = [other.append(bodies[11]), log.append(bodies[12])]

    assert [receipt.number for receipt in receipts] == [11, 12]
    assert log.first in (0, 5)
    assert [message.body for message in log.read(log.first)] == bodies[log.first :]
    log.verify()
