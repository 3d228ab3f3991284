"""Finds the parts of each record of a Kafka batch: with numpy for all records if there are many, else one by one.

    | length | attributes | timestamp delta | offset delta | key size, key | value size, value | header count, headers |
      varint   1 byte       varint            varint         varint          varint              varint

`length` counts what follows it. A size of -1 is a null key or value. `kafka_columns` reads the headers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from warren.storage.format.slices import COPIED_SIZE_MAX, Positions

ByteArray = npt.NDArray[np.uint8]
TOGETHER_MIN: Final = 48
"""With this many records or more, numpy is faster than a loop."""
EVEN_MIN: Final = 16
"""If fewer consecutive records than this have one size, a loop steps over the rest."""
VARINT_BITS_MAX: Final = 63
VARINT_SIZE_MAX: Final = 10
VARINT_MASK: Final = (1 << 64) - 1


class RecordPlaces(NamedTuple):
    """For each record: where key and value start and end, where its headers start, and where it ends.

    A null key or value starts and ends at −1. All parts lie within the record. The records are numbered from 0 on, and
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
    """Returns where the parts of the `count` records in `area` lie. Raises ValueError if they do not fit together."""
    if count > len(area):
        raise ValueError(f"{count} records in {len(area)} bytes")
    try:
        return places_together(area, count) if count >= TOGETHER_MIN else places_one_by_one(area, count)
    except IndexError as error:
        raise ValueError("a record passes the end of the batch") from error


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
            raise ValueError(f"record {number} of {length} bytes does not fit the batch")
        _, position = read_varint(data, position + 1)
        delta, position = read_varint(data, position)
        if delta != number:
            raise ValueError(f"record {delta} where {number} should be")
        key_start, key_end, position = _piece(data, position)
        value_start, value_end, position = _piece(data, position)
        header_count, position = read_varint(data, position)
        if header_count < 0 or position > end or (not header_count and position != end):
            raise ValueError(f"the parts of record {number} do not fit it")
        rows.append((key_start, key_end, value_start, value_end, position, header_count, end))
        position = end
    if position != len(data):
        raise ValueError("more bytes than records")
    return RecordPlaces(*np.array(rows, np.int64).reshape(count, len(RecordPlaces._fields)).T)


def _piece(data: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """Returns the start and the end of a key or value, and the position behind it."""
    size, position = read_varint(data, position)
    if size < 0:
        return -1, -1, position
    return position, position + size, position + size


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Returns a signed varint and the position behind it. Raises IndexError or ValueError if there is none."""
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


# --- All at once ---


def places_together(area: bytes | memoryview, count: int) -> RecordPlaces:
    """Does what `find_places` does, with a few numpy operations on all records."""
    data: ByteArray = np.frombuffer(area, np.uint8)
    starts = _starts(data, count)
    lengths, positions = _read_varints(data, starts)
    ends = positions + lengths
    expected = np.append(starts[1:], len(data))
    if (lengths < 1).any() or (ends != expected).any():
        raise ValueError("records that do not follow each other")
    _, positions = _read_varints(data, positions + 1)
    deltas, positions = _read_varints(data, positions)
    if (deltas != np.arange(count)).any():
        raise ValueError("records that are not numbered from 0 on")
    key_starts, key_ends, positions = _pieces(data, positions)
    value_starts, value_ends, positions = _pieces(data, positions)
    header_counts, positions = _read_varints(data, positions)
    is_wrong = (header_counts < 0) | (positions > ends) | ((header_counts == 0) & (positions != ends))
    if is_wrong.any():
        raise ValueError(f"the parts of record {int(is_wrong.argmax())} do not fit it")
    return RecordPlaces(key_starts, key_ends, value_starts, value_ends, positions, header_counts, ends)


def _starts(data: ByteArray, count: int) -> Positions:
    """Returns where the records start. Does not check where the last one ends."""
    starts = np.empty(count, np.int64)
    place = position = 0
    while place < count:
        length, size = read_varint(data[position : position + VARINT_SIZE_MAX].tobytes(), 0)
        if length < 1:
            raise ValueError(f"a record of {length} bytes")
        step = size + length
        even = _count_even(data, position, step, size, count - place)
        starts[place : place + even] = position + step * np.arange(even)
        place, position = place + even, position + step * even
        if even < EVEN_MIN:
            return _step_over(data.tobytes(), starts, place, position)
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


def _step_over(raw: bytes, starts: Positions, place: int, position: int) -> Positions:
    stepped = []
    for _ in range(place, len(starts)):
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
    starts[place:] = stepped
    return starts


def _pieces(data: ByteArray, positions: Positions) -> tuple[Positions, Positions, Positions]:
    sizes, positions = _read_varints(data, positions)
    is_null = sizes < 0
    if is_null.any():
        ends = positions + np.maximum(sizes, 0)
        return np.where(is_null, -1, positions), np.where(is_null, -1, ends), ends
    ends = positions + sizes
    return positions, ends, ends


def _read_varints(data: ByteArray, positions: Positions) -> tuple[Positions, Positions]:
    """Returns the signed varints at these positions, and the positions behind them.

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
    """Returns the bytes at these positions. Raises IndexError if one is outside of the data."""
    if len(positions) and (int(positions.max()) >= len(data) or int(positions.min()) < 0):
        raise IndexError("a position outside of the batch")
    taken: ByteArray = data[positions]
    return taken
