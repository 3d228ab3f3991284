"""Finds the parts of each record of a Kafka batch: with numpy for all records if there are many, else one by one.

    | length | attributes | timestamp delta | offset delta | key size, key | value size, value | header count, headers |
      varint   1 byte       varint            varint         varint          varint              varint

`length` counts what follows it. A size of -1 is a null key or value. `kafka_columns` reads the headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.storage.format.slices import COPIED_SIZE_MAX, ROWS_AT_ONCE, Positions, slices_of

ByteArray = npt.NDArray[np.uint8]
TOGETHER_MIN: Final = 48
"""From this many records on, numpy is faster than a loop."""
EVEN_MIN: Final = 16
"""If fewer consecutive records than this have the same size, a loop steps over the rest."""
EVEN_AT_ONCE: Final = 64
"""How many records are compared first. Twice as many come next if all had one size, so that short runs cost little."""
STEPPED_SIZE: Final = 256 << 10
"""A loop over records reads this many bytes at a time: a copy of 120 MB would hold the interpreter for 50 ms."""
VARINT_BITS_MAX: Final = 63
VARINT_SIZE_MAX: Final = 10
VARINT_MASK: Final = (1 << 64) - 1
RECORD_HEAD_SIZE_MAX: Final = 2 * VARINT_SIZE_MAX + 1
"""Length, attributes and timestamp delta."""


class RecordPlaces(NamedTuple):
    """For each record: where key and value start and end, where its headers start, and where it ends.

    A null key or value starts and ends at −1. All parts are within the record. The records are numbered from 0, and
    follow each other without gaps up to the end of the area.
    """

    key_starts: Positions
    key_ends: Positions
    value_starts: Positions
    value_ends: Positions
    headers_at: Positions
    header_counts: Positions
    ends: Positions


def find_places(area: bytes | memoryview, count: int) -> RecordPlaces:
    """Returns the positions of the parts of the `count` records in `area`.

    Raises ValueError if they are not consistent.
    """
    if count > len(area):
        raise ValueError(f"{count} records in {len(area)} bytes")
    try:
        return places_together(area, count) if count >= TOGETHER_MIN else places_one_by_one(area, count)
    except IndexError as error:
        raise ValueError("a record exceeds the end of the batch") from error


# --- One by one ---


def places_one_by_one(area: bytes | memoryview, count: int) -> RecordPlaces:
    """Does what `find_places` does, with a loop over the records."""
    # Bytes are read faster than a view, but a copy of 64 MiB for one record would take a tenth of a second.
    data = area if len(area) > COPIED_SIZE_MAX else bytes(area)
    rows, position = [], 0
    for number in range(count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 1 or end > len(data):
            raise ValueError(f"record {number} of {length} bytes does not fit into the batch")
        _, position = read_varint(data, position + 1)
        delta, position = read_varint(data, position)
        if delta != number:
            raise ValueError(f"record {delta} was found where {number} was expected")
        key_start, key_end, position = _piece(data, position)
        value_start, value_end, position = _piece(data, position)
        header_count, position = read_varint(data, position)
        if header_count < 0 or position > end or (not header_count and position != end):
            raise ValueError(f"the parts of record {number} do not match its length")
        rows.append((key_start, key_end, value_start, value_end, position, header_count, end))
        position = end
    if position != len(data):
        raise ValueError("bytes follow the last record")
    return RecordPlaces(*np.array(rows, np.int64).reshape(count, len(RecordPlaces._fields)).T)


def _piece(data: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """Returns the start and the end of a key or value, and the position after it."""
    size, position = read_varint(data, position)
    if size < 0:
        return -1, -1, position
    return position, position + size, position + size


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Returns a signed varint and the position after it. Raises IndexError or ValueError if there is none."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > VARINT_BITS_MAX:
            raise ValueError("a varint of more than ten bytes")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= VARINT_MASK
    return (value >> 1) ^ -(value & 1), position


def time_deltas(area: bytes | memoryview, count: int) -> Iterator[int]:
    """Yields the time of each record, as the difference to that of its batch.

    Raises ValueError or IndexError when it comes to a record that does not fit. Reads STEPPED_SIZE bytes at a time.
    """
    data, data_at, position = b"", 0, 0
    for _ in range(count):
        at = position - data_at
        if at + RECORD_HEAD_SIZE_MAX > len(data) and data_at + len(data) < len(area):
            data, data_at, at = bytes(area[position : position + STEPPED_SIZE]), position, 0
        length, at = read_varint(data, at)
        if length < 1:
            raise ValueError(f"a record of {length} bytes")
        delta, _ = read_varint(data, at + 1)
        position = data_at + at + length
        yield delta


# --- All together ---


def places_together(area: bytes | memoryview, count: int) -> RecordPlaces:
    """Does what `find_places` does, with a few numpy operations on all records, or on ROWS_AT_ONCE at a time."""
    data: ByteArray = np.frombuffer(area, np.uint8)
    starts = _starts(data, count)
    expected = np.append(starts[1:], len(data))
    if count <= ROWS_AT_ONCE:
        return _places_of(data, starts, expected, 0)
    places = RecordPlaces(*np.empty((len(RecordPlaces._fields), count), np.int64))
    for rows in slices_of(count, ROWS_AT_ONCE):
        for column, part in zip(places, _places_of(data, starts[rows], expected[rows], rows.start), strict=True):
            column[rows] = part
    return places


def _places_of(data: ByteArray, starts: Positions, expected: Positions, first: int) -> RecordPlaces:
    """Returns the places in the records that start there and have to end at `expected`, numbered from `first` on."""
    lengths, positions = _read_varints(data, starts)
    ends = positions + lengths
    if (lengths < 1).any() or (ends != expected).any():
        raise ValueError("the records do not follow each other")
    _, positions = _read_varints(data, positions + 1)
    deltas, positions = _read_varints(data, positions)
    if (deltas != np.arange(first, first + len(starts))).any():
        raise ValueError("the records are not numbered from 0")
    key_starts, key_ends, positions = _pieces(data, positions)
    value_starts, value_ends, positions = _pieces(data, positions)
    header_counts, positions = _read_varints(data, positions)
    is_wrong = (header_counts < 0) | (positions > ends) | ((header_counts == 0) & (positions != ends))
    if is_wrong.any():
        raise ValueError(f"the parts of record {first + int(is_wrong.argmax())} do not match its length")
    return RecordPlaces(key_starts, key_ends, value_starts, value_ends, positions, header_counts, ends)


def _starts(data: ByteArray, count: int) -> Positions:
    """Returns the starts of the records. Does not check where the last one ends."""
    starts = np.empty(count, np.int64)
    place = position = 0
    at_once = EVEN_AT_ONCE
    while place < count:
        length, size = read_varint(data[position : position + VARINT_SIZE_MAX].tobytes(), 0)
        if length < 1:
            raise ValueError(f"a record of {length} bytes")
        step = size + length
        even = _count_even(data, position, step, size, min(count - place, at_once))
        at_once = min(2 * at_once, ROWS_AT_ONCE) if even == at_once else EVEN_AT_ONCE
        starts[place : place + even] = position + step * np.arange(even)
        place, position = place + even, position + step * even
        if even < EVEN_MIN:
            _step_over(data, starts, place, position)
            break
    return starts


def _count_even(data: ByteArray, position: int, step: int, size: int, count_max: int) -> int:
    """Returns how many consecutive records, from the first on, have its size. They have the same length before them:

    | length | record …           | length | record …           | length | record …
    ^ position                    ^ position + step             ^ position + 2 × step
      size bytes, compared byte by byte with those of the first record
    """
    count = min(count_max, (len(data) - position - size) // step + 1)
    if count < 1:
        raise IndexError(position)
    is_same = np.ones(count, np.bool_)
    for at in range(position, position + size):
        is_same &= data[at : at + (count - 1) * step + 1 : step] == data[at]
    return count if is_same.all() else int(is_same.argmin())


def _step_over(data: ByteArray, starts: Positions, place: int, position: int) -> None:
    """Stores where the records from number `place` on start. The first of them starts at `position`."""
    stretches = []
    while place < len(starts):
        if position >= len(data):
            raise IndexError(position)
        raw = data[position : position + STEPPED_SIZE].tobytes()
        # A length that the end of these bytes may cut is read with the next ones.
        is_last = position + len(raw) == len(data)
        stepped, behind = _stepped(raw, len(raw) - (0 if is_last else VARINT_SIZE_MAX), len(starts) - place)
        rows = slice(place, place + len(stepped))
        starts[rows] = stepped
        stretches.append((rows, position))
        place, position = rows.stop, position + behind
    # Not in the loop, because an addition of NumPy releases the interpreter for a moment that is too short for another
    # thread to wake up in, and each release makes that thread start its wait again: with a million records, for 120 ms.
    for rows, first in stretches:
        starts[rows] += first


def _stepped(raw: bytes, end: int, count: int) -> tuple[list[int], int]:
    """Returns where up to `count` records start that start before `end`, and the position behind the last of them."""
    stepped, position = [], 0
    for _ in range(count):
        if position >= end:
            break
        stepped.append(position)
        byte = raw[position]
        if byte < 0x80:
            position += 1 + (byte >> 1)
        elif raw[position + 1] < 0x80:
            position += 2 + ((byte & 0x7F | raw[position + 1] << 7) >> 1)
        else:
            length, body_at = read_varint(raw, position)
            if length < 1:
                raise ValueError(f"a record of {length} bytes")
            position = body_at + length
    return stepped, position


def _pieces(data: ByteArray, positions: Positions) -> tuple[Positions, Positions, Positions]:
    sizes, positions = _read_varints(data, positions)
    is_null = sizes < 0
    if is_null.any():
        ends = positions + np.maximum(sizes, 0)
        return np.where(is_null, -1, positions), np.where(is_null, -1, ends), ends
    ends = positions + sizes
    return positions, ends, ends


def _read_varints(data: ByteArray, positions: Positions) -> tuple[Positions, Positions]:
    """Returns the signed varints at these positions, and the positions after them.

    Each step reads one byte of all varints that have not ended.
    """
    read = _take(data, positions)
    values = read.astype(np.int64) & 0x7F
    behind = positions + 1
    rows = np.flatnonzero(read >= 0x80)
    shift = 7
    while len(rows):
        if shift > VARINT_BITS_MAX:
            raise ValueError("a varint of more than ten bytes")
        read = _take(data, behind[rows])
        values[rows] |= (read.astype(np.int64) & 0x7F) << shift
        behind[rows] += 1
        rows = rows[read >= 0x80]
        shift += 7
    unsigned = values.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(values & 1), behind


def _take(data: ByteArray, positions: Positions) -> ByteArray:
    """Returns the bytes at these positions. Raises IndexError if one is outside the data."""
    if len(positions) and (int(positions.max()) >= len(data) or int(positions.min()) < 0):
        raise IndexError("a position is outside the batch")
    picked: ByteArray = data[positions]
    return picked
