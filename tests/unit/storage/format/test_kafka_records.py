"""Kafka batches in a log: stored unchanged, sent unchanged, and read as messages by every reader."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from tests.support.crafted import packed, write_log
from tests.support.kafka_batches import CLIENT_TIME_MS, batch_of, batch_of_rows, packed_rows
from warren.errors import CorruptRecord, NumberRetired, TooLarge, UnsupportedByVersion
from warren.message import Message
from warren.storage import Log
from warren.storage.format import kafka_columns, kafka_records
from warren.storage.format.checksum import crc32c
from warren.storage.format.kafka_batch import numbered, pack_kafka, pack_kafka_in_place
from warren.storage.format.kafka_columns import KafkaColumns
from warren.storage.format.kafka_records import TOGETHER_MIN, ByteArray, find_places, places_one_by_one, time_deltas
from warren.storage.format.layout import KAFKA_BATCH_HEAD, PAYLOAD_HEAD, KafkaBatchHead
from warren.storage.format.record import Packed

COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ROWS: list[dict[str, Any]] = [
    {"body": b"first", "tag": "eu.de", "key": b"k", "id": "id-1", "corr_offset": 4096, "headers": {"trace": b"1"}},
    {"body": b"", "tag": "us"},
    {"body": b"third" * 50, "key": b"", "headers": {"a": b"", "ä": b"\xff"}},
    {"body": b"fourth"},
]


def many(count: int) -> list[dict[str, Any]]:
    return [{"body": b"body-%d" % row, "tag": "eu.de" if row % 3 else "us"} for row in range(count)]


def content(message: Message) -> dict[str, Any]:
    fields = message._asdict()
    return {name: fields[name] for name in ("body", "tag", "key", "id", "corr_offset")} | {
        "headers": dict(message.headers)
    }


def expected(row: dict[str, Any]) -> dict[str, Any]:
    return {"tag": "", "key": None, "id": "", "corr_offset": -1, "headers": {}, **row}


def only(batch: bytes, log: Log) -> Message:
    """Returns the one message of this batch, as the log reads it."""
    log.append_packed([pack_kafka(batch)])
    (message,) = log.read(log.end - 1)
    return message


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with Log.open(tmp_path, durability="os") as opened:
        yield opened


@pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)
@pytest.mark.parametrize("before", [PAYLOAD_HEAD.size, 100])
def test_a_batch_packed_in_place_equals_one_packed_with_a_copy(compression: int, before: int) -> None:
    batch = batch_of_rows(many(500), compression=compression)
    area = memoryview(bytearray(before) + batch + b"behind")
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))

    payload, checksum, count = pack_kafka_in_place(area, before, head)

    assert Packed(bytes(payload), checksum, count) == pack_kafka(batch)
    assert bytes(area[-6:]) == b"behind"


@pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_every_reader_gives_the_messages_of_a_batch(log: Log, compression: int) -> None:
    log.append(b"before")

    numbers = log.append_packed([packed_rows(ROWS, compression=compression)])
    log.append_many([b"after"])

    assert numbers == range(1, 5)
    assert [content(message) for message in log.read(1, limit=4)] == [expected(row) for row in ROWS]
    assert [message.number for message in log.read(0)] == list(range(6))
    messages = [log.at(number) for number in numbers]
    assert [content(message) for message in messages if message is not None] == [expected(row) for row in ROWS]
    assert [message.body for message in log.backwards()] == [
        b"after", b"fourth", b"third" * 50, b"", b"first", b"before",
    ]  # fmt: skip
    assert [message.number for message in log.read(0, tag="eu.*;us")] == [1, 2]
    assert log.last(2)[0].body == b"fourth"
    assert log.reader("all").read()[1].tag == "eu.de"
    assert log.verify().messages == 6


@pytest.mark.parametrize("count", [1, 47, 48, 200, 9000])
@pytest.mark.parametrize("compression", [0, 4])
def test_a_scan_gives_the_rows_of_batches_of_any_size(log: Log, count: int, compression: int) -> None:
    log.append_packed([packed_rows(many(count), compression=compression), packed_rows(ROWS)])

    rows = [row for batch in log.scan() for row in batch.to_pylist()]

    assert [row["number"] for row in rows] == list(range(count + 4))
    assert [row["body"] for row in rows[:count]] == [row["body"] for row in many(count)]
    assert [row["tag"] for row in rows[count:]] == ["eu.de", "us", "", ""]
    assert [row["key"] for row in rows[count:]] == [b"k", None, b"", None]
    assert dict(rows[count]["headers"]) == {"trace": b"1"}
    assert rows[count]["corr_offset"] == 4096
    tagged = [row["number"] for batch in log.scan(tag="us", columns=["number"]) for row in batch.to_pylist()]
    assert tagged == [*range(0, count, 3), count + 1]


def test_messages_have_the_time_of_storing_and_the_offset_of_their_record(log: Log) -> None:
    numbers = log.append_packed([packed_rows(ROWS)])

    messages = log.read(0)

    assert len({(message.offset, message.timestamp) for message in messages}) == 1
    assert messages[0].timestamp > CLIENT_TIME_MS * 1000
    assert log.find_time(messages[0].timestamp) == numbers.start


def test_a_batch_is_returned_unchanged_except_for_base_offset_and_epoch(log: Log) -> None:
    log.append_many([b"x"] * 7)
    batch = batch_of_rows(ROWS, compression=4)
    log.append_packed([pack_kafka(batch, leader_epoch=3)])

    (_, stored) = log.stored(0, bytes_max=1 << 20)

    assert (stored.number, stored.message_count) == (7, 4)
    assert stored.batch is not None
    sent = b"".join(numbered(stored.batch, stored.number))
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(sent))
    assert (head.base_offset, head.leader_epoch) == (7, 3)
    assert sent[16:] == batch[16:]
    theirs = DefaultRecordBatch(sent)
    assert theirs.validate_crc()
    assert [record.offset for record in theirs] == [7, 8, 9, 10]


def test_stored_batches_are_returned_up_to_a_number_of_bytes(log: Log) -> None:
    log.append_packed([packed_rows(many(10)) for _ in range(5)])
    size = log.stored(0, bytes_max=1)[0].size

    assert [one.number for one in log.stored(0, bytes_max=1)] == [0]
    assert [one.number for one in log.stored(0, bytes_max=2 * size)] == [0, 10]
    assert [one.number for one in log.stored(0, bytes_max=2 * size + 1)] == [0, 10]
    assert [one.number for one in log.stored(25, bytes_max=1 << 20)] == [20, 30, 40]
    assert log.stored(50, bytes_max=1 << 20) == []


def test_records_without_a_kafka_batch_are_returned_as_one_range(log: Log) -> None:
    log.append(b"a")
    log.append_many([b"b", b"c"])
    log.append_packed([packed_rows(ROWS)])
    log.append(b"d")

    stored = log.stored(1, bytes_max=1 << 20)

    assert [(one.number, one.message_count, one.batch is None) for one in stored] == [
        (1, 2, True),
        (3, 4, False),
        (7, 1, True),
    ]
    assert log.stored(0, bytes_max=1 << 20)[0].message_count == 3


def test_returned_batches_do_not_change_when_the_log_grows_retires_or_closes(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os", block_size=8 << 10) as log:
        log.append_packed([packed_rows(ROWS)])
        (stored,) = log.stored(0, bytes_max=1 << 20)
        for _ in range(30):
            log.append_packed([packed_rows(many(40))])
        log.retire(before=600)

    assert stored.batch is not None
    assert bytes(stored.batch[16:]) == batch_of_rows(ROWS)[16:]


def test_batches_lie_in_many_blocks(tmp_path: Path) -> None:
    with Log.open(tmp_path, durability="os", block_size=8 << 10) as log:
        for _ in range(30):
            log.append_packed([packed_rows(many(40))])

        stored = log.stored(0, bytes_max=1 << 20)

        assert sum(one.message_count for one in stored) == 1200
        assert [message.number for message in log.read(0, limit=2000)] == list(range(1200))
        assert len(log.inspect().blocks) > 3
        first = log.retire(before=600)
        with pytest.raises(NumberRetired):
            log.stored(first - 1, bytes_max=1)
        assert log.stored(first, bytes_max=1)[0].number == first


def test_a_batch_that_was_stored_is_appended_to_another_log(tmp_path: Path, log: Log) -> None:
    log.append_packed([packed_rows(ROWS, compression=1)])
    with Log.open(tmp_path / "other", durability="os") as other:
        other.append(b"before")

        other.append_packed(list(log.packed(0, log.end)))

        assert [content(message) for message in other.read(1)] == [expected(row) for row in ROWS]
        batch = other.stored(1, bytes_max=1)[0].batch
        assert batch is not None
        assert KAFKA_BATCH_HEAD.unpack_from(batch)[0] == 0


def test_a_batch_over_the_size_of_a_block_is_refused(tmp_path: Path) -> None:
    with Log.open(tmp_path, block_size=4 << 10) as log:
        with pytest.raises(TooLarge):
            log.append_packed([packed_rows([{"body": bytes(5000)}])])

        assert log.end == 0


def test_a_log_of_version_1_takes_no_batch(tmp_path: Path) -> None:
    with Log.open(tmp_path, version=1) as log:
        with pytest.raises(UnsupportedByVersion):
            log.append_packed([packed_rows(ROWS)])
        with pytest.raises(UnsupportedByVersion):
            log.stored(0, bytes_max=1)


def test_a_batch_survives_a_crash(tmp_path: Path) -> None:
    log = Log.open(tmp_path, durability="os")
    log.append_packed([packed_rows(ROWS), packed_rows(many(100))])
    block = next(tmp_path.glob("*.block"))
    contents = {path.name: path.read_bytes() for path in (tmp_path / "index", block)}
    log.close()
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)

    with Log.open(tmp_path, durability="os", repair=True) as again:
        assert again.end == 104
        assert again.read(4)[0].body == b"body-0"


def test_a_batch_carries_a_marker(tmp_path: Path, log: Log) -> None:
    log.append_packed([pack_kafka(batch_of_rows(ROWS), marker=b"mine-1"), packed_rows(ROWS)])
    log.append_packed([pack_kafka(batch_of_rows(many(60)), marker=b"other-2")])

    assert [tuple(marked) for marked in log.markers(0)] == [(0, 4, b"mine-1"), (8, 60, b"other-2")]
    assert [marked.marker for marked in log.markers(0, other_than=b"mine")] == [b"other-2"]
    assert [content(message) for message in log.read(0, limit=4)] == [expected(row) for row in ROWS]
    stored = log.stored(0, bytes_max=1)[0].batch
    assert stored is not None
    assert bytes(stored[16:]) == batch_of_rows(ROWS)[16:]
    with pytest.raises(TooLarge):
        pack_kafka(batch_of_rows(ROWS), marker=bytes(1025))


def test_snappy_is_read_as_librdkafka_packs_it(log: Log) -> None:
    plain = batch_of([(None, b"v" * 5000, [])] * 3)
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(plain))
    small = pyarrow.compress(plain[KAFKA_BATCH_HEAD.size :], codec="snappy", asbytes=True)
    head = head._replace(attributes=2, batch_length=KAFKA_BATCH_HEAD.size - 12 + len(small))

    log.append_packed([pack_kafka(KAFKA_BATCH_HEAD.pack(*head) + small)])

    assert [message.body for message in log.read(0)] == [b"v" * 5000] * 3


# --- Fields that only Kafka has ---


def test_a_null_value_is_an_empty_body_with_a_marker_header(log: Log) -> None:
    log.append_packed([pack_kafka(batch_of([(b"k", None, []), (b"k", b"", []), (None, None, [("h", b"v")])]))])

    first, second, third = log.read(0)

    assert (first.body, dict(first.headers)) == (b"", {"warren.null-body": b""})
    assert (second.body, dict(second.headers)) == (b"", {})
    assert dict(third.headers) == {"h": b"v", "warren.null-body": b""}
    assert [row["body"] for batch in log.scan() for row in batch.to_pylist()] == [b"", b"", b""]


def test_all_values_may_be_null_and_all_keys_too(log: Log) -> None:
    log.append_packed([pack_kafka(batch_of([(None, None, [])] * 60))])

    assert {(message.key, message.body) for message in log.read(0)} == {(None, b"")}


def test_the_last_header_of_a_name_counts_and_a_null_header_is_empty(log: Log) -> None:
    message = only(batch_of([(None, b"v", [("a", b"1"), ("b", None), ("a", b"2")])]), log)

    assert dict(message.headers) == {"a": b"2", "b": b""}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warren.tag", b"t" * 129),
        ("warren.tag", b"\xff"),
        ("warren.tag", b""),
        ("warren.id", b"i" * 41),
        ("warren.corr-offset", b"-1"),
        ("warren.corr-offset", b"12x"),
        ("warren.corr-offset", b"9223372036854775808"),
        ("warren.corr-offset", b"9" * 5000),
    ],
)
def test_a_header_of_warren_that_is_over_a_limit_stays_a_header(log: Log, name: str, value: bytes) -> None:
    message = only(batch_of([(None, b"v", [(name, value)])]), log)

    assert dict(message.headers) == {name: value}
    assert (message.tag, message.id, message.corr_offset) == ("", "", -1)


def test_a_header_that_is_too_large_is_left_out_and_counted(log: Log) -> None:
    headers = [("n" * 256, b"v"), ("large", bytes(65_536)), ("whole", bytes(65_535))]

    message = only(batch_of([(None, b"v", headers)]), log)

    assert dict(message.headers) == {"whole": bytes(65_535), "warren.headers-left-out": b"2"}


def test_a_key_may_be_larger_than_warren_takes(log: Log) -> None:
    assert only(batch_of([(bytes(100_000), b"v", [])]), log).key == bytes(100_000)


# --- Malformed batches ---


def crafted(batch: bytes, **changes: int) -> Packed:
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))._replace(**changes)
    return packed(KAFKA_BATCH_HEAD.pack(*head) + batch[KAFKA_BATCH_HEAD.size :], codec=2, count=head.record_count)


def with_headers(count: int, headers: bytes) -> Packed:
    """Returns a batch of one record, which claims this many headers, and has these bytes of them."""
    record = b"\0\0\0\1\2v" + bytes((count << 1,)) + headers
    records = bytes((len(record) << 1,)) + record
    return crafted(PLAIN[: KAFKA_BATCH_HEAD.size] + records, record_count=1, batch_length=49 + len(records))


PLAIN = batch_of([(b"k", b"v", [("h", b"1")])] * 3)
MALFORMED = {
    "nothing": packed(b"", codec=2),
    "less than a head": packed(PLAIN[:60], codec=2, count=3),
    "another count than the record": packed(PLAIN, codec=2, count=2),
    "another format": crafted(PLAIN, magic=1),
    "a length that is not its own": crafted(PLAIN, batch_length=len(PLAIN)),
    "an unknown compression": crafted(PLAIN, attributes=5),
    "an id": packed(b"i" + PLAIN, codec=2, count=3, id_size=1),
    "a tag": packed(b"t" + PLAIN, codec=2, count=3, tag_size=1),
    "a key": packed(b"k" + PLAIN, codec=2, count=3, key_size=1),
    "a compressed record": packed(PLAIN, codec=2, count=3, compression=1),
}
UNREADABLE = {
    "more records than there are": crafted(PLAIN, record_count=4),
    "fewer records than there are": crafted(PLAIN, record_count=2),
    "not gzip": crafted(PLAIN, attributes=1),
    "not snappy": crafted(PLAIN, attributes=2),
    "not lz4": crafted(PLAIN, attributes=3),
    "not zstd": crafted(PLAIN, attributes=4),
    "a header name below zero": with_headers(1, b"\1"),
    "a header name that passes its record": with_headers(1, b"\6h\0"),
    "a header value that passes its record": with_headers(1, b"\2h\4v"),
    "fewer headers than there are": with_headers(1, b"\2h\2v\2h\2v"),
    "more headers than there are": with_headers(2, b"\2h\2v"),
    "headers although their count is 0": with_headers(0, b"\2h\2v"),
    "headers below zero": crafted(
        PLAIN[: KAFKA_BATCH_HEAD.size] + b"\x0e\0\0\0\1\2v\1", record_count=1, batch_length=49 + 8
    ),
}
"""Batches that a Kafka client may send and no reader can read."""


def test_headers_made_by_hand_are_read(log: Log) -> None:
    log.append_packed([with_headers(2, b"\2h\2v\2i\1")])

    assert [(message.body, dict(message.headers)) for message in log.read(0)] == [(b"v", {"h": b"v", "i": b""})]


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_batch_that_makes_no_sense_is_damage_and_never_a_message(tmp_path: Path, fault: str) -> None:
    write_log(tmp_path, [packed(b"whole"), MALFORMED[fault]])

    with Log.open(tmp_path, read_only=True) as log:
        assert [message.body for message in log.read(0, limit=1)] == [b"whole"]
        with pytest.raises(CorruptRecord):
            log.read(1)
        with pytest.raises(CorruptRecord):
            log.at(1)
        with pytest.raises(CorruptRecord):
            list(log.scan())
        with pytest.raises(CorruptRecord):
            log.verify()


@pytest.mark.parametrize("fault", UNREADABLE)
def test_an_unreadable_batch_of_a_client_is_skipped(tmp_path: Path, fault: str) -> None:
    write_log(tmp_path, [packed(b"whole"), UNREADABLE[fault]])

    with Log.open(tmp_path, read_only=True) as log:
        assert [message.body for message in log.read(0)] == [b"whole"]
        assert (log.at(1), log.read(1)) == (None, [])
        assert sum(batch.num_rows for batch in log.scan()) == 1
        assert [(batch.number, bool(batch.reason)) for batch in log.verify().unreadable] == [(1, True)]


STORED_WRONG = {
    "less than a head": packed(PLAIN[:60], codec=2, count=3),
    "no message": packed(PLAIN, codec=2, count=0),
    "no message of ours": packed(b"body", count=0),
    "an id": packed(b"i" + PLAIN, codec=2, count=3, id_size=1),
    "a compressed record": packed(PLAIN, codec=2, count=3, compression=1),
}


@pytest.mark.parametrize("fault", STORED_WRONG)
def test_forwarding_a_damaged_batch_raises(tmp_path: Path, fault: str) -> None:
    write_log(tmp_path, [packed_rows(ROWS), STORED_WRONG[fault]])

    with Log.open(tmp_path, read_only=True) as log:
        assert [one.number for one in log.stored(0, bytes_max=1 << 20)] == [0]
        with pytest.raises(CorruptRecord):
            log.stored(4, bytes_max=1 << 20)


def test_forwarding_over_a_gap_raises(tmp_path: Path) -> None:
    write_log(tmp_path, [packed_rows(ROWS), packed_rows(ROWS), packed_rows(ROWS)], wrong_numbers={8: 5})

    with Log.open(tmp_path, read_only=True) as log:
        assert [one.number for one in log.stored(0, bytes_max=1 << 20)] == [0, 4]
        with pytest.raises(CorruptRecord):
            log.stored(8, bytes_max=1 << 20)


def test_a_batch_that_is_on_disk_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(data: memoryview) -> int:
        sizes.append(len(data))
        return crc32c(data)

    with Log.open(tmp_path, durability="commit") as log:
        log.append_packed([packed_rows(many(100))])
        monkeypatch.setattr("warren.storage.read.raw_records.crc32c", counting)

        for _ in range(3):
            log.stored(0, bytes_max=1)

    assert len(sizes) == 1


def test_forwarding_detects_a_flipped_byte(tmp_path: Path) -> None:
    block = write_log(tmp_path, [packed_rows(ROWS)])
    data = block.read_bytes()
    start = data.index(b"first") - 150
    for position in range(start - start % 8, data.index(b"fourth") + 6):
        wounded = bytearray(data)
        wounded[position] ^= 0x10
        block.write_bytes(wounded)

        with Log.open(tmp_path, read_only=True) as log:
            try:
                stored = log.stored(0, bytes_max=1 << 20)
            except CorruptRecord:
                continue
            if stored[0].batch is None:
                with pytest.raises(CorruptRecord):
                    log.read(stored[0].number)
            else:
                assert bytes(stored[0].batch)[16:] == batch_of_rows(ROWS)[16:], position


def test_the_places_of_a_large_record_are_found_without_a_copy_of_it() -> None:
    size = 8 << 20
    area = memoryview(batch_of([(b"key", bytes(size), [])]))[KAFKA_BATCH_HEAD.size :]
    tracemalloc.start()
    try:
        places = find_places(area, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert int(places.value_ends[0] - places.value_starts[0]) == size
    assert [column.tolist() for column in places] == [column.tolist() for column in find_places(bytes(area), 1)]
    assert peak < size // 8


def uneven(count: int, body_size: int = 0) -> memoryview:
    """The records of a batch of which few neighbours have one size."""
    rows = [(b"k" * (number % 3), bytes(body_size + number * 7 % 41), ()) for number in range(count)]
    return memoryview(batch_of(rows))[KAFKA_BATCH_HEAD.size :]


@pytest.mark.parametrize("count", [TOGETHER_MIN, 299, 300, 301])
def test_many_records_are_found_slice_by_slice(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_records, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(kafka_records, "STEPPED_SIZE", 64)

    for area in (uneven(count), memoryview(batch_of([(None, b"even", ())] * count))[KAFKA_BATCH_HEAD.size :]):
        places, expected = find_places(area, count), places_one_by_one(area, count)

        assert [column.tolist() for column in places] == [column.tolist() for column in expected]
        for wrong in (area[:-1], bytes(area) + b"\2"):
            with pytest.raises(ValueError, match=r"."):
                find_places(wrong, count)


def test_a_record_with_a_wrong_number_is_found_in_any_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_records, "ROWS_AT_ONCE", 60)
    area = bytearray(batch_of([(None, b"", ())] * 64)[KAFKA_BATCH_HEAD.size :])
    # Behind the length of the last record come its attributes, its time and its number, each time of two bytes.
    area[-4] ^= 2

    with pytest.raises(ValueError, match="numbered from 0"):
        find_places(bytes(area), 64)


def test_the_places_of_many_records_are_found_without_a_copy_of_all() -> None:
    area = uneven(200, 40_000)
    tracemalloc.start()
    try:
        find_places(area, 200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(area) > 8_000_000
    assert peak < 1_000_000


def record_of(number: int, length: int) -> bytes:
    """A record of this length, without key, time and headers."""
    head = b"\0\0" + varint(number) + varint(-1)
    # The size of its value takes one byte, and so does the count of its headers.
    size = length - len(head) - 2
    return varint(length) + head + varint(size) + bytes(size) + b"\0"


def varint(value: int) -> bytes:
    remainder, data = (value << 1) ^ (value >> 63), bytearray()
    while remainder >= 0x80:
        data.append(remainder & 0x7F | 0x80)
        remainder >>= 7
    return bytes((*data, remainder))


def test_short_runs_of_one_size_are_not_compared_with_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    count_even = kafka_records._count_even

    def counted(data: ByteArray, position: int, step: int, size: int, count_max: int) -> int:
        compared.append(count_max)
        return count_even(data, position, step, size, count_max)

    monkeypatch.setattr(kafka_records, "_count_even", counted)
    count = 20_000
    # Twenty records of one size, twenty of another, and so on.
    area = b"".join(record_of(number, 30 + number // 20 % 2) for number in range(count))

    places = find_places(area, count)

    assert places.ends[:21].tolist() == [31 * number for number in range(1, 21)] + [20 * 31 + 32]
    assert int(places.ends[-1]) == len(area)
    assert len(compared) > 500
    assert sum(compared) < 10 * count


def test_the_times_of_records_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_records, "STEPPED_SIZE", 64)

    for area, count in ((uneven(100), 100), (uneven(30, 500), 30)):
        assert list(time_deltas(area, count)) == [37 * number for number in range(count)]
        with pytest.raises(IndexError):
            list(time_deltas(area, count + 1))


def test_headers_are_read_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"%d" % number, "tag": f"t{number % 3}" if number % 5 else "", "id": str(number) if number % 7 else ""}
        | ({"headers": {"h": bytes(number)}} if number % 2 else {})
        | ({"corr_offset": number} if number % 11 == 3 else {})
        for number in range(100)
    ]
    batch = batch_of_rows(rows)
    whole = KafkaColumns(batch, len(rows))
    monkeypatch.setattr(kafka_columns, "HEADERS_AT_ONCE", 7)
    monkeypatch.setattr(kafka_columns, "PARSED_MAX", 20)

    sliced = KafkaColumns(batch, len(rows))

    assert sliced.kinds == whole.kinds
    assert len(sliced.kinds) > 5
    assert all(bytes(sliced.section(kind)) == bytes(whole.section(kind)) for kind in whole.kinds)


def test_headers_that_all_differ_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"body": b"x", "id": str(number)} for number in range(100)]
    monkeypatch.setattr(kafka_columns, "HEADERS_AT_ONCE", 7)
    monkeypatch.setattr(kafka_columns, "PARSED_MAX", 20)
    counts: list[int] = []
    fields_of = kafka_columns._fields_of

    def counted(data: Any, places: Any, parsed: Any, tags: Any) -> Any:
        fields = fields_of(data, places, parsed, tags)
        counts.append(len(parsed))
        return fields

    monkeypatch.setattr(kafka_columns, "_fields_of", counted)

    KafkaColumns(batch_of_rows(rows), len(rows))

    assert len(counts) == 15
    assert max(counts) < 20 + 2 * 7
