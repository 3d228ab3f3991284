"""Any message within its limits comes back from a record: single or in a batch, compressed or not."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compression import Compression
from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.storage import Log
from warren.storage.format.layout import aligned
from warren.storage.format.record import Damage, DiskMessage, Packed, unpack_headers
from warren.storage.format.versions import FORMATS

COMPRESSIONS: list[Compression] = ["none", "zstd", "lz4"]


def text(size_max: int) -> st.SearchStrategy[str]:
    """Text of at most that many bytes."""
    return st.text(max_size=size_max).filter(lambda value: len(value.encode()) <= size_max)


class Fields(NamedTuple):
    body: bytes
    tag: str
    id: str
    corr_offset: int
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}


bodies = st.one_of(
    st.binary(max_size=300), st.builds(lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 400))
)
offsets = st.integers(-1, 2**63 - 1)
v1_fields = st.builds(Fields, bodies, text(127), text(39), offsets, st.none(), st.just({}))
v2_fields = st.builds(
    Fields,
    bodies,
    text(128),
    text(40),
    offsets,
    st.none() | st.binary(max_size=50),
    st.dictionaries(text(255), st.binary(max_size=50), max_size=4),
)


def on_disk(version: int, packed: Packed, offset: int, number: int, timestamp: int) -> tuple[bytes, DiskMessage]:
    """The bytes of a record in a map, and the record as it is read from there."""
    format = FORMATS[version]
    data = format.stamp(packed, offset + 8, number, timestamp)
    view = mmap.mmap(-1, aligned(len(data)) + 64)
    view[8 : 8 + len(data)] = data
    limit = 8 + format.record_size(packed)
    return data, format.read_record(view, 8, limit, offset)


@given(fields=v1_fields, offset=st.integers(0, 2**62), number=st.integers(0, 2**62), ms=st.integers(0, 2**50))
def test_a_single_record_of_version_1_comes_back(fields: Fields, offset: int, number: int, ms: int) -> None:
    packed = FORMATS[1].pack_single(fields.body, tag=fields.tag, id=fields.id, corr_offset=fields.corr_offset)

    data, record = on_disk(1, packed, offset, number, ms * 1000)

    assert (record.offset, record.number, record.timestamp, record.message_count) == (offset + 8, number, ms * 1000, 1)
    assert (record.body, record.tag, record.id) == (fields.body, fields.tag, fields.id)
    assert (record.corr_offset, record.key, record.headers) == (fields.corr_offset, None, b"")
    assert record.end == 8 + len(data) == 8 + FORMATS[1].record_size(packed)


@given(
    fields=v2_fields,
    offset=st.integers(0, 2**60).map(lambda place: place * 8),
    number=st.integers(0, 2**62),
    timestamp=st.integers(0, 2**62),
    compression=st.integers(0, 2),
)
def test_a_single_record_comes_back(fields: Fields, offset: int, number: int, timestamp: int, compression: int) -> None:
    packed = FORMATS[2].pack_single(
        fields.body,
        tag=fields.tag,
        key=fields.key,
        headers=fields.headers,
        id=fields.id,
        corr_offset=fields.corr_offset,
        compression=compression,
    )

    data, record = on_disk(2, packed, offset, number, timestamp)

    assert (record.offset, record.number, record.timestamp, record.message_count) == (offset + 8, number, timestamp, 1)
    assert (record.body, record.tag, record.id) == (fields.body, fields.tag, fields.id)
    assert (record.corr_offset, record.key) == (fields.corr_offset, fields.key)
    assert unpack_headers(record.headers) == fields.headers
    assert record.end == aligned(8 + len(data))
    sizes = len(fields.tag.encode()) + len(fields.id.encode()) + len(fields.key or b"")
    sizes += sum(3 + len(name.encode()) + len(value) for name, value in fields.headers.items())
    assert len(data) <= 56 + sizes + len(fields.body)


@given(fields=v2_fields, data=st.data())
@settings(max_examples=examples(60))
def test_no_byte_of_a_record_changes_unnoticed(fields: Fields, data: st.DataObject) -> None:
    packed = FORMATS[2].pack_single(fields.body, tag=fields.tag, key=fields.key, headers=fields.headers, id=fields.id)
    whole = FORMATS[2].stamp(packed, 0, 7, 9)
    position = data.draw(st.integers(0, len(whole) - 1))
    view = mmap.mmap(-1, aligned(len(whole)) + 4096)
    view[: len(whole)] = whole

    view[position] ^= data.draw(st.integers(1, 255))

    with pytest.raises(Damage):
        FORMATS[2].read_record(view, 0, len(view), 0)


@given(
    batches=st.lists(st.lists(v2_fields, min_size=1, max_size=12), min_size=1, max_size=4),
    compression=st.sampled_from(COMPRESSIONS),
    columns=st.sets(st.sampled_from(["tags", "keys", "ids", "headers", "corr_offsets"])),
    single=st.booleans(),
)
@settings(max_examples=examples(60))
def test_batches_and_single_messages_come_back_mixed(
    batches: list[list[Fields]], compression: Compression, columns: set[str], single: bool
) -> None:
    disk, clock = SimulatedFileSystem(map_capacity=1 << 22), SimulatedClock()
    expected: list[Fields] = []
    with Log.open("/log", filesystem=disk, clock=clock, compression=compression, durability="os") as log:
        for batch in batches:
            given_columns = {
                "tags": [fields.tag for fields in batch],
                "keys": [fields.key for fields in batch],
                "ids": [fields.id for fields in batch],
                "headers": [fields.headers for fields in batch],
                "corr_offsets": [fields.corr_offset for fields in batch],
            }
            chosen = {name: values for name, values in given_columns.items() if name in columns}
            log.append_many([fields.body for fields in batch], **chosen)  # type: ignore[arg-type]
            expected += [_only(fields, columns) for fields in batch]
            if single:
                first = batch[0]
                log.append(first.body, tag=first.tag, key=first.key, headers=first.headers, id=first.id)
                expected.append(first._replace(corr_offset=-1))

        records = [
            Fields(each.body, each.tag, each.id, each.corr_offset, each.key, dict(each.headers)) for each in log.read(0)
        ]

        assert records == expected
        for number in range(0, len(expected), 5):
            message = log.at(number)
            assert message is not None
            assert message.body == expected[number].body
        assert log.verify().messages == len(expected)


def _only(fields: Fields, columns: set[str]) -> Fields:
    """Returns the rest of a message of which only some columns were requested."""
    return Fields(
        fields.body,
        fields.tag if "tags" in columns else "",
        fields.id if "ids" in columns else "",
        fields.corr_offset if "corr_offsets" in columns else -1,
        fields.key if "keys" in columns else None,
        dict(fields.headers) if "headers" in columns else {},
    )
