"""Readers: a durable position with a name and a filter, each on its own."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.fakes import QUICK_DISK, VERSIONS, WatchedDisk, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import BadInput, CorruptRecord, LogClosed, MalformedFilter, NumberRetired
from warren.message import Message
from warren.storage import END, START, Log, QueueReader
from warren.storage.format.layout import READER_FILE_SIZE, READER_INTENT_V1_CHECKSUM

MS = 1_000_000


@pytest.fixture(params=VERSIONS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Ten messages, a millisecond apart, the even ones of eu.de, the odd ones of us.ny; the last four are a batch."""
    clock = SimulatedClock()
    log = quick_log(tmp_path / "log", version=request.param, clock=clock, block_size=4096)
    for number in range(6):
        log.append(b"%d" % number, tag=_tag(number))
        clock.pass_ns(MS)
    log.append_many([b"%d" % number for number in range(6, 10)], tags=[_tag(number) for number in range(6, 10)])
    return log


def _tag(number: int) -> str:
    return "us.ny" if number % 2 else "eu.de"


def numbers_of(messages: list[Message]) -> list[int]:
    return [message.number for message in messages]


def reopened(log: Log) -> Log:
    log.close()
    return quick_log(log.path, block_size=4096)


# --- Reading and committing ---


def test_a_new_reader_starts_at_the_first_message(log: Log) -> None:
    reader = log.reader("billing")

    assert (reader.name, reader.position, reader.tag) == ("billing", 0, None)
    assert numbers_of(reader.read()) == list(range(10))


def test_reading_continues_after_the_last_message(log: Log) -> None:
    reader = log.reader("billing")

    pages = [numbers_of(reader.read(limit=4)) for _ in range(4)]

    assert pages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    assert reader.position == 10


def test_a_reader_reads_messages_that_are_appended_later(log: Log) -> None:
    reader = log.reader("billing")
    reader.read()

    log.append(b"later")

    assert [message.body for message in reader.read()] == [b"later"]


def test_the_next_reader_of_a_name_starts_at_its_commit(log: Log) -> None:
    reader = log.reader("billing")
    for limit in (3, 4, 2):
        reader.read(limit=limit)
        reader.commit()
        position = reader.position

        assert log.reader("billing").position == position
        log = reopened(log)
        reader = log.reader("billing")
        assert reader.position == position
    assert numbers_of(reader.read()) == [9]


def test_uncommitted_messages_are_read_again(log: Log) -> None:
    reader = log.reader("billing")
    reader.read(limit=2)
    reader.commit()
    reader.read(limit=5)

    assert log.reader("billing").position == 2
    assert reopened(log).reader("billing").position == 2


def test_a_commit_at_the_end_stays_at_the_next_message(log: Log) -> None:
    reader = log.reader("billing")
    reader.read()
    reader.commit()

    log = reopened(log)
    for number in range(10, 40):
        log.append(b"%d" % number * 100)

    assert len(log.inspect().blocks) > 1
    assert log.reader("billing").position == 10


def test_committing_twice_changes_nothing(log: Log) -> None:
    reader = log.reader("billing")
    reader.read(limit=3)
    reader.commit()
    content = _reader_file(log).read_bytes()

    reader.commit()

    assert _reader_file(log).read_bytes() == content


def test_a_reader_of_an_empty_log_starts_with_its_first_message(tmp_path: Path) -> None:
    for version in VERSIONS:
        log = quick_log(tmp_path / str(version), version=version)
        reader = log.reader("billing")
        reader.commit()

        log.append(b"first")

        assert reader.read()[0].number == 0
        assert log.reader("billing").position == 0


def test_readers_are_independent_of_each_other(log: Log) -> None:
    first, second = log.reader("first"), log.reader("second", tag="us.*")
    first.read(limit=7)
    first.commit()
    second.read(limit=1)
    second.commit()

    log = reopened(log)

    assert (log.reader("first").position, log.reader("second").position) == (7, 2)
    assert (log.reader("first").tag, log.reader("second").tag) == (None, "us.*")
    assert log.readers() == ["first", "second"]


def test_a_log_without_readers_has_none(log: Log) -> None:
    assert log.readers() == []


def test_other_files_are_no_readers(log: Log) -> None:
    log.reader("billing")
    (Path(log.path) / "readers" / "billing.reader.new").write_bytes(b"half")
    (Path(log.path) / "readers" / "notes.txt").write_bytes(b"")

    assert log.readers() == ["billing"]


# --- Filters ---


def test_a_reader_reads_messages_that_pass_its_filter(log: Log) -> None:
    reader = log.reader("billing", tag="eu.*")

    assert reader.tag == "eu.*"
    assert numbers_of(reader.read(limit=2)) == [0, 2]
    assert reader.position == 3
    assert numbers_of(reader.read()) == [4, 6, 8]
    assert reader.position == 10


def test_a_filter_is_kept_in_the_readers_file(log: Log) -> None:
    log.reader("billing", tag="eu.*")

    log = reopened(log)

    assert log.reader("billing").tag == "eu.*"
    assert numbers_of(log.reader("billing").read()) == [0, 2, 4, 6, 8]


def test_giving_another_filter_changes_it_and_keeps_the_position(log: Log) -> None:
    reader = log.reader("billing", tag="eu.*")
    reader.read(limit=2)
    reader.commit()

    changed = log.reader("billing", tag="us.#")

    assert (changed.tag, changed.position) == ("us.#", 3)
    log = reopened(log)
    assert (log.reader("billing").tag, log.reader("billing").position) == ("us.#", 3)
    assert numbers_of(log.reader("billing").read()) == [3, 5, 7, 9]


def test_a_filter_given_later_is_kept_too(log: Log) -> None:
    log.reader("billing")

    log.reader("billing", tag="eu.*")

    assert reopened(log).reader("billing").tag == "eu.*"


def test_giving_the_same_filter_writes_nothing(log: Log) -> None:
    log.reader("billing", tag="eu.*")
    before = _reader_file(log).stat().st_ino

    log.reader("billing", tag="eu.*")

    assert _reader_file(log).stat().st_ino == before


def test_a_malformed_filter_makes_no_reader(log: Log) -> None:
    with pytest.raises(MalformedFilter, match="a level is empty"):
        log.reader("billing", tag="eu..de")

    assert log.readers() == []


# --- Going elsewhere ---


def test_a_reader_can_seek_anywhere(log: Log) -> None:
    reader = log.reader("billing")

    assert reader.seek(END) == reader.position == 10
    assert reader.seek(4) == reader.position == 4
    assert reader.seek(START) == reader.position == 0
    assert reader.seek(datetime.fromtimestamp(START_NS // 10**9, UTC).replace(microsecond=2000)) == 2
    assert reader.seek(START_NS / 1e9 + 0.003) == 3
    assert numbers_of(reader.read(limit=1)) == [3]


def test_a_seek_goes_no_further_than_the_end(log: Log) -> None:
    reader = log.reader("billing")

    assert reader.seek(11) == 10
    assert reader.seek(-1) == 0
    assert reader.seek(datetime(9999, 1, 1, tzinfo=UTC)) == 10


def test_a_seek_is_committed(log: Log) -> None:
    reader = log.reader("billing")
    for place in (END, 7, 2, START, 9):
        position = reader.seek(place)
        reader.commit()

        assert log.reader("billing").position == position


def test_a_reader_whose_messages_were_retired_gets_an_error_and_may_seek(log: Log) -> None:
    reader = log.reader("billing")
    reader.commit()
    for number in range(10, 40):
        log.append(b"%d" % number * 200)
    first = log.retire(before=30)
    assert first > 0

    with pytest.raises(NumberRetired, match=f"message 0 was retired; the log now starts at {first}") as caught:
        reader.read()

    assert (caught.value.number, caught.value.first) == (0, first)
    assert reader.seek(START) == first
    assert reader.read(limit=1)[0].number == first
    behind = log.reader("billing")
    assert behind.position == 0
    with pytest.raises(NumberRetired):
        behind.read()


def test_a_reader_may_commit_a_retired_position(log: Log) -> None:
    for number in range(10, 40):
        log.append(b"%d" % number * 200)
    log.retire(before=30)
    reader = log.reader("billing")
    reader.seek(0)

    reader.commit()

    assert log.reader("billing").position == 0


def test_a_new_reader_starts_after_retired_messages(log: Log) -> None:
    for number in range(10, 40):
        log.append(b"%d" % number * 200)
    first = log.retire(before=30)

    assert log.reader("billing").position == first


@pytest.mark.parametrize("version", VERSIONS)
def test_every_position_of_every_block_is_kept(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        for number in range(60):
            log.append(b"%d" % number * 100)
        reader = log.reader("billing")
        for position in (*range(61), *range(60, -1, -1)):
            reader.seek(position)
            reader.commit()

            assert log.reader("billing").position == position
        assert len(log.inspect().blocks) > 3


# --- Durability and damage ---


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("durability", "syncs"), [("commit", 1), ("os", 0), ("interval:50ms", 0)])
def test_a_commit_is_as_durable_as_the_log(tmp_path: Path, version: int, durability: str, syncs: int) -> None:
    disk = WatchedDisk()
    with quick_log(tmp_path, version=version, durability=durability, filesystem=disk) as log:
        log.append(b"one")
        reader = log.reader("billing")
        reader.read()
        disk.syncs.clear()

        reader.commit()

        assert disk.syncs == ["billing.reader"] * syncs


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_reader_is_whole_on_disk_before_it_has_its_name(tmp_path: Path, version: int) -> None:
    syncs: list[tuple[str, int, bool]] = []
    disk = WatchedDisk()
    with quick_log(tmp_path / "log", version=version, filesystem=disk) as log:
        disk.syncs.clear()
        disk.on_sync = lambda path: syncs.append(
            (Path(path).name, Path(path).stat().st_size, _reader_file(log).exists())
        )

        log.reader("billing")

        assert syncs == [("billing.reader.new", READER_FILE_SIZE, False)]
        assert disk.syncs == ["log/", "billing.reader.new", "readers/"]
        assert [file.name for file in (tmp_path / "log" / "readers").iterdir()] == ["billing.reader"]


def test_the_file_of_a_half_made_reader_does_no_harm(log: Log) -> None:
    (Path(log.path) / "readers").mkdir()
    (Path(log.path) / "readers" / "billing.reader.new").write_bytes(b"x" * 2000)

    log.reader("billing", tag="eu.*")

    assert _reader_file(log).stat().st_size == READER_FILE_SIZE
    assert log.reader("billing").tag == "eu.*"


def test_a_position_past_the_end_is_the_end(log: Log) -> None:
    """As after a power cut that lost messages but not the reader."""
    reader = log.reader("billing")
    reader.seek(END)
    reader.commit()
    path = Path(log.path)
    saved = _reader_file(log).read_bytes()
    version = log.version
    log.close()
    with quick_log(path.with_name("other"), version=version) as other:
        other.append(b"only one")
        other.reader("billing")
        _reader_file(other).write_bytes(saved)

        assert other.reader("billing").position <= 1


def test_an_entry_that_was_not_finished_costs_one_change(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append_many([b""] * 5)
        reader = log.reader("billing", tag="eu.*")
        for position in (2, 3):
            reader.seek(position)
            reader.commit()
        reader.filter_by("us.*")
        positions, filters = (0, 64), (128, 272)

        _zero(_reader_file(log), _later(_reader_file(log), positions, sequence_at=24) + 32, 8)
        _zero(_reader_file(log), _later(_reader_file(log), filters, sequence_at=8) + 4, 4)

        assert (log.reader("billing").position, log.reader("billing").tag) == (2, "eu.*")
        reader.seek(4)
        reader.commit()
        reader.filter_by("asia")
        assert (log.reader("billing").position, log.reader("billing").tag) == (4, "asia")


def _zero(file: Path, position: int, size: int) -> None:
    """As a process leaves it that is killed before it stored the checksum."""
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(bytes(size))


def _later(file: Path, places: tuple[int, int], *, sequence_at: int) -> int:
    data = file.read_bytes()
    return max(places, key=lambda at: int(struct.unpack_from("<Q", data, at + sequence_at)[0]))


@pytest.mark.parametrize(("position", "place"), [(0, 0), (8, 0), (24, 0), (32, 0), (128, 128), (132, 128), (140, 128)])
def test_an_entry_of_a_reader_that_does_not_check_is_damage(tmp_path: Path, position: int, place: int) -> None:
    with quick_log(tmp_path) as log:
        log.reader("billing")
        _flip(_reader_file(log), position)

        with pytest.raises(CorruptRecord, match=f"damaged at byte {place}: the entry") as damage:
            log.reader("billing")

        assert damage.value.path == str(_reader_file(log))


def test_a_filter_can_be_changed_while_a_reader_is_in_use(log: Log) -> None:
    reader = log.reader("billing")
    reader.read(limit=3)

    reader.filter_by("us.*")

    assert (reader.tag, reader.position) == ("us.*", 3)
    assert numbers_of(reader.read()) == [3, 5, 7, 9]
    assert log.reader("billing").tag == "us.*"
    with pytest.raises(MalformedFilter):
        reader.filter_by("us..ny")
    assert reader.tag == "us.*"


@pytest.mark.parametrize("position", [12, 30])
def test_a_version_1_filter_that_cannot_be_is_damage(tmp_path: Path, position: int) -> None:
    with quick_log(tmp_path, version=1) as log:
        log.reader("billing", tag="eu.de")
        _flip(_reader_file(log), position)

        with pytest.raises(CorruptRecord, match=r"billing\.reader is damaged"):
            log.reader("billing")


def test_a_version_1_reader_that_committed_has_the_fields_of_the_document_and_nothing_under_way(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        messages = [log.append(bytes(1000)) for _ in range(6)]
        reader = log.reader("billing", tag="eu.de")
        reader.seek(4)
        reader.commit()
        file = _reader_file(log).read_bytes()
        block = log.inspect().blocks[1]

    assert block.base_number <= 4 < block.end_number
    document = struct.pack(">QI128s", 1, messages[4].offset - block.base_offset, b"\x05eu.de")
    assert file == document.ljust(READER_FILE_SIZE, b"\0")


def test_an_intent_of_a_version_1_reader_that_does_not_check_is_damage(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1) as log:
        reader = log.reader("billing")
        _flip(_reader_file(log), READER_INTENT_V1_CHECKSUM.start)

        with pytest.raises(CorruptRecord, match="the intent of the reader does not match its checksum"):
            log.reader("billing")
        with pytest.raises(CorruptRecord, match="the intent of the reader does not match its checksum"):
            reader.commit()


def test_a_file_of_a_reader_that_was_cut_is_damage(log: Log) -> None:
    log.reader("billing")
    log = reopened(log)
    _reader_file(log).write_bytes(bytes(READER_FILE_SIZE - 1))

    with pytest.raises(CorruptRecord, match="the file of the reader is too short"):
        log.reader("billing")


# --- Names, and logs that may not be written ---


@pytest.mark.parametrize("name", ["a", "A-1", "_x", "eu.billing", "9", "-", "x" * 200])
def test_a_reader_may_have_such_a_name(log: Log, name: str) -> None:
    log.reader(name)

    assert log.readers() == [name]


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "ü", "a\n", "x" * 201])
def test_a_reader_may_not_have_such_a_name(log: Log, name: str) -> None:
    with pytest.raises(BadInput, match="use 1 to 200 letters, digits"):
        log.reader(name)

    assert not (Path(log.path) / "readers").exists()


def test_a_read_only_log_makes_no_reader(log: Log) -> None:
    log.close()
    with Log.open(log.path, read_only=True) as read_only:
        with pytest.raises(LogClosed, match="read_only=True"):
            read_only.reader("billing")

        assert read_only.readers() == []


def test_a_read_only_log_reads_with_existing_readers_and_changes_none(log: Log) -> None:
    first = log.reader("billing", tag="eu.*")
    first.read(limit=1)
    first.commit()
    log.close()
    before = _reader_file(log).read_bytes()
    with Log.open(log.path, read_only=True) as read_only:
        reader = read_only.reader("billing")

        assert numbers_of(reader.read()) == [2, 4, 6, 8]
        with pytest.raises(LogClosed, match="read_only=True"):
            reader.commit()
        with pytest.raises(LogClosed, match="read_only=True"):
            read_only.reader("billing", tag="us.*")
        with pytest.raises(LogClosed, match="read_only=True"):
            reader.filter_by("us.*")

    assert _reader_file(log).read_bytes() == before


def test_a_reader_has_a_readable_repr(log: Log) -> None:
    assert repr(log.reader("billing")) == "<QueueReader billing at 0>"
    assert repr(log.reader("other", tag="eu.*")) == "<QueueReader other at 0 tag eu.*>"
    assert isinstance(log.reader("other"), QueueReader)


def _reader_file(log: Log) -> Path:
    return Path(log.path) / "readers" / "billing.reader"


def _flip(file: Path, position: int) -> None:
    handle = QUICK_DISK.open(str(file), writable=True)
    handle.write(position, bytes((handle.read(position, 1)[0] ^ 0xFF,)))
    handle.close()


def test_a_version_1_reader_keeps_its_place_through_a_repair_of_a_log_that_lost_blocks(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        for _ in range(20):
            log.append(bytes(1000))
        log.retire(before=10)
        reader = log.reader("billing")
        reader.seek(12)
        reader.commit()

    with Log.open(tmp_path, repair=True) as log:
        assert log.reader("billing").position == 12
