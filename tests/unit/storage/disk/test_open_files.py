"""How many files a process keeps open, over all of its logs."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WaitingJobs, quick_log
from warren.errors import LogClosed
from warren.storage import Log
from warren.storage.disk.open_files import Residents, process_residents

FILES_MAX = 20


class Guest:
    """Holds a given number of files, and releases them on request, unless it is busy."""

    def __init__(self, residents: Residents) -> None:
        self._residents, self._count = residents, 0
        self.is_busy, self.forks = False, 0
        residents.register(self)

    @property
    def file_count(self) -> int:
        return self._count

    def hold(self, count: int) -> None:
        self._count = count
        self._residents.admit(self)

    def rest(self) -> bool:
        if self.is_busy:
            return False
        self._count = 0
        return True

    def after_fork(self) -> None:
        self._count = 0
        self.forks += 1


# --- By themselves ---


def test_the_least_recently_used_holder_is_asked_first() -> None:
    residents = Residents(10)
    guests = [Guest(residents) for _ in range(4)]

    for guest in guests:
        guest.hold(3)

    assert [guest.file_count for guest in guests] == [0, 3, 3, 3]


def test_no_more_holders_are_asked_than_needed() -> None:
    residents = Residents(10)
    first, second, third = (Guest(residents) for _ in range(3))
    first.hold(5)
    second.hold(5)

    third.hold(4)

    assert (first.file_count, second.file_count) == (0, 5)


class OpensToClose(Guest):
    """Opens a file before it closes all of its files, as the copy of a log on a slave does."""

    def __init__(self, residents: Residents) -> None:
        super().__init__(residents)
        self.rests = 0

    def rest(self) -> bool:
        self.rests += 1
        self.hold(self._count + 1)
        return super().rest()


def test_a_holder_that_opens_a_file_in_order_to_close_makes_no_other_one_close() -> None:
    residents = Residents(10)
    guests = [OpensToClose(residents) for _ in range(2000)]

    for guest in guests:
        guest.hold(1)

    # Each rests alone: with 2,000 of them resting within each other there would be a RecursionError.
    assert [guest.rests for guest in guests] == [1] * 1990 + [0] * 10
    assert residents._open == 10


def test_a_busy_holder_is_skipped() -> None:
    residents = Residents(5)
    busy, idle, other = (Guest(residents) for _ in range(3))
    busy.hold(3)
    idle.hold(2)
    busy.is_busy = True

    other.hold(2)

    assert (busy.file_count, idle.file_count, other.file_count) == (3, 0, 2)


def test_no_holder_is_asked_to_make_room_for_itself() -> None:
    residents = Residents(5)
    guest = Guest(residents)

    guest.hold(50)

    assert guest.file_count == 50


def test_released_files_no_longer_count() -> None:
    residents = Residents(10)
    first, second = Guest(residents), Guest(residents)
    for _ in range(100):
        first.hold(9)
        first.hold(1)
    first.hold(5)

    second.hold(5)

    assert first.file_count == 5


def test_a_holder_that_leaves_no_longer_counts() -> None:
    residents = Residents(10)
    first, second, third = (Guest(residents) for _ in range(3))
    first.hold(4)
    second.hold(6)
    residents.leave(second)

    third.hold(6)

    assert first.file_count == 4


def test_a_collected_holder_no_longer_counts() -> None:
    residents = Residents(10)
    first, third = Guest(residents), Guest(residents)
    first.hold(4)
    Guest(residents).hold(6)
    gc.collect()

    third.hold(6)

    assert first.file_count == 4


class Unlucky(Guest):
    """An object whose reset fails in a child."""

    def after_fork(self) -> None:
        super().after_fork()
        raise OSError("no such directory")


def test_every_holder_learns_of_a_fork_even_if_one_raises() -> None:
    residents = Residents(10)
    guests = [kind(residents) for kind in (Guest, Unlucky, Guest, Unlucky, Guest)]

    with pytest.raises(OSError, match="no such directory"):
        residents.after_fork()

    assert [guest.forks for guest in guests] == [1] * 5


def test_every_holder_learns_of_a_fork_with_or_without_open_files() -> None:
    residents = Residents(10)
    guests = [Guest(residents) for _ in range(3)]
    guests[0].hold(8)

    residents.after_fork()

    assert [guest.forks for guest in guests] == [1, 1, 1]
    guests[1].hold(8)
    guests[2].hold(2)
    assert guests[1].file_count == 8, "what the parent held does not count"


def test_a_process_has_a_limit_below_that_of_the_system() -> None:
    assert process_residents() is process_residents()
    assert 16 <= process_residents()._files_max <= 1024


# --- Logs ---


@pytest.fixture
def residents(monkeypatch: pytest.MonkeyPatch) -> Residents:
    """A process that may hold only a few files."""
    few = Residents(FILES_MAX)
    monkeypatch.setattr("warren.storage.append.open.process_residents", lambda: few)
    return few


def open_descriptors(path: Path) -> int:
    """Returns descriptors and maps of files under `path`; a map has its own descriptor."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return sum(link.startswith(str(path)) for link in links)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_number_of_logs_shares_a_few_descriptors(tmp_path: Path, version: int, residents: Residents) -> None:
    logs = [quick_log(tmp_path / str(number), version=version, max_block_count=1) for number in range(60)]
    readers = [log.reader("billing") for log in logs]
    for turn in range(3):
        for number, log in enumerate(logs):
            assert log.append(b"%d:%d" % (number, turn)).number == turn
        for number, (log, reader) in enumerate(zip(logs, readers, strict=True)):
            assert [message.body for message in log.read(0)] == [b"%d:%d" % (number, each) for each in range(turn + 1)]
            assert [message.number for message in reader.read()] == [turn]
            reader.commit()

            assert open_descriptors(tmp_path) <= 2 * FILES_MAX + 8
    assert len(logs) == 60


def test_the_count_of_open_files_is_always_right(tmp_path: Path, residents: Residents) -> None:
    log = quick_log(tmp_path, block_size=4096, max_block_count=1)
    for number in range(40):
        log.append(bytes(2000))
        log.retire(before=log.end - 1)
        log.extension = {"number": str(number)}
    log.reader("billing").read()
    log.read(log.first)

    assert residents._open == log._files.file_count
    # The block that was read last is kept until the next one is read.
    assert open_descriptors(tmp_path) <= 2 * residents._open + 2


def test_a_log_keeps_a_few_of_its_blocks_open(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=4096) as log:
        for _ in range(300):
            log.append(bytes(1000))
        assert len(log.inspect().blocks) == 100
        for number in range(300):
            assert log.at(number) is not None

        assert open_descriptors(tmp_path) <= 2 * (32 + 3)


def test_a_block_in_use_stays_open_while_others_come_and_go(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=4096) as log:
        for _ in range(300):
            log.append(bytes(1000))
        first = str(log.inspect().blocks[0].path)
    with quick_log(tmp_path) as log:
        for number in range(0, 300, 3):
            log.at(0)
            log.at(number)

        assert any(os.path.realpath(f"/proc/self/fd/{name}") == first for name in os.listdir("/proc/self/fd"))


def test_a_closed_log_holds_nothing(tmp_path: Path, residents: Residents) -> None:
    log = quick_log(tmp_path)
    log.append(b"one")
    log.reader("billing").read()
    assert open_descriptors(tmp_path) > 0

    log.close()
    gc.collect()

    assert open_descriptors(tmp_path) == 0
    assert residents._open == 0


def test_a_log_that_is_dropped_holds_nothing(tmp_path: Path, residents: Residents) -> None:
    log = quick_log(tmp_path)
    log.append(b"one")

    del log
    gc.collect()

    assert open_descriptors(tmp_path) == 0
    assert residents._open == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("durability", ["commit", "os", "interval:50ms"])
def test_a_log_that_closed_its_files_continues_where_it_was(tmp_path: Path, version: int, durability: str) -> None:
    log = quick_log(tmp_path, version=version, durability=durability)
    reader = log.reader("billing")
    for number in range(100):
        assert log.append(b"%d" % number).number == number
        assert reader.read()[0].body == b"%d" % number
        reader.commit()

        assert log._files.rest()
        assert open_descriptors(tmp_path) == 0
    assert log.verify().messages == 100


def test_a_log_with_blocks_that_wait_for_their_sync_does_not_rest(tmp_path: Path) -> None:
    jobs = WaitingJobs()
    log = quick_log(tmp_path, block_size=4096, background=jobs)
    for _ in range(5):
        log.append(bytes(1000))
    assert not log._files.rest()

    jobs.run()

    assert log._files.rest()
    assert log.append(b"more").number == 5


def test_a_log_in_the_middle_of_a_change_does_not_rest(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append(b"one")

    with log._files.mutex:
        assert not log._files.rest()

    assert log._files.rest()


def test_an_exclusive_log_that_rests_keeps_its_lock(tmp_path: Path) -> None:
    log = quick_log(tmp_path, exclusive=True)
    log.append(b"one")
    log._files.rest()

    with pytest.raises(Exception, match="is locked for writing by process"):
        quick_log(tmp_path, exclusive=True)

    assert log.append(b"two").number == 1
    log.close()
    with quick_log(tmp_path, exclusive=True) as other:
        assert other.append(b"three").number == 2


def test_threads_may_use_logs_that_are_made_to_rest_all_the_time(tmp_path: Path, residents: Residents) -> None:
    logs = [quick_log(tmp_path / str(number), block_size=4096) for number in range(12)]
    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for turn in range(60):
                log = logs[(start + turn) % len(logs)]
                number = log.append(b"%d" % start * 500).number
                message = log.at(number)
                assert message is not None
                assert message.body == b"%d" % start * 500
                assert log.read(0, limit=3)[0].number == 0
        except BaseException as error:  # noqa: BLE001  # raised in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert sum(log.end for log in logs) == 360
    for log in logs:
        log.verify()


def test_closing_wins_over_rest(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append(b"one")
    log._files.rest()
    log.close()

    with pytest.raises(LogClosed):
        log.append(b"two")

    with Log.open(tmp_path, read_only=True) as again:
        assert again.inspect().state == "clean"


def test_a_holder_that_is_collected_during_the_walk_does_no_harm() -> None:
    residents = Residents(FILES_MAX)
    first, gone, last = (Guest(residents) for _ in range(3))
    for guest in (first, gone):
        guest.hold(FILES_MAX // 2)
    reference, count = residents._order[id(first)]

    def collecting() -> object:
        """The garbage collector may run at any moment, and so at this one."""
        residents.leave(gone)
        return reference()

    residents._order[id(first)] = collecting, count  # type: ignore[assignment]
    last.hold(FILES_MAX)

    assert (first.file_count, last.file_count) == (0, FILES_MAX)
