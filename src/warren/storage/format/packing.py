"""Packs batches into records: as few as possible, each of a size that suits a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from warren.errors import BadInput, TooLarge, UnsupportedByVersion
from warren.message import NO_CORR_OFFSET
from warren.storage.format.checksum import crc32c
from warren.storage.format.columns import ALL_ROWS, END, Batch, Columns, Ends, messages
from warren.storage.format.compression import compress
from warren.storage.format.layout import (
    ALIGNMENT,
    CODEC_COLUMNS,
    CODEC_KAFKA,
    CODEC_SINGLE,
    COLUMNS_HEAD,
    NO_KEY,
    PAYLOAD_HEAD,
    SECTION,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_KEY_PRESENT,
    SECTION_MARKER,
    SECTION_TAG_CODES,
    SECTION_TAGS,
)
from warren.storage.format.limits import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_TARGET,
    BODY_SIZE_MAX,
    ID_SIZE_MAX,
    KEY_SIZE_MAX,
    MARKER_SIZE_MAX,
    TAG_SIZE_MAX,
)
from warren.storage.format.record import (
    Damage,
    Packed,
    check_bodies,
    check_corr_offset,
    columns_at,
    key_bytes,
    pack_headers,
    read_unstored,
    record_size,
    text_bytes,
    unpack_headers,
)
from warren.storage.format.versions import Format

Offsets = npt.NDArray[np.int64]
"""Where adjacent pieces end, with the start of the first piece before them. Arrow calls these offsets."""
Sections = list[tuple[int, bytes | memoryview]]
"""Kind and bytes of sections, in their order in a record."""


def check_marker(marker: bytes) -> None:
    """Raises TooLarge if the marker is too large for a record."""
    if len(marker) > MARKER_SIZE_MAX:
        raise TooLarge("marker", len(marker), MARKER_SIZE_MAX)


def pack_many(
    format: Format, batch: Batch, tag: str, compression: int, record_size_max: int, marker: bytes
) -> list[Packed]:
    """Returns the records of a batch in a log of that format: one for each message if the format has no batches."""
    batch.check()
    check_marker(marker)
    if format.has_batches:
        return list(pack_batch(batch, tag, compression, record_size_max, marker))
    if marker:
        raise UnsupportedByVersion("a marker", format.version)
    check_bodies(batch.bodies)
    return [_pack_row(format, batch, row, tag) for row in range(len(batch.bodies))]


def _pack_row(format: Format, batch: Batch, row: int, tag: str) -> Packed:
    return format.pack_single(
        batch.bodies[row],
        tag=batch.tags[row] if batch.tags else tag,
        key=batch.keys[row] if batch.keys else None,
        headers=batch.headers[row] if batch.headers else None,
        id=batch.ids[row] if batch.ids else "",
        corr_offset=batch.corr_offsets[row] if batch.corr_offsets else NO_CORR_OFFSET,
    )


def repack(format: Format, records: Sequence[Packed]) -> list[Packed]:
    """Returns packed records in the form of a format without batches: one for each message, without markers.

    Raises UnsupportedByVersion for a Kafka batch, and BadInput for a message that the format does not store.
    """
    return [packed for record in records for packed in _repacked(format, record)]


def _repacked(format: Format, packed: Packed) -> Iterator[Packed]:
    try:
        record = read_unstored(packed)
        if record.codec == CODEC_KAFKA:
            raise UnsupportedByVersion("a Kafka batch", format.version)
        if record.codec == CODEC_SINGLE:
            fields = record.tag, record.key, unpack_headers(record.headers), record.id, record.corr_offset
            rows = [(record.body, *fields)]
        else:
            columns = Columns(record.area, record.message_count)
            rows = [
                (each.body, each.tag, each.key, each.headers, each.id, each.corr_offset)
                for each in messages(record, columns, ALL_ROWS, topic="", partition=0)
            ]
    except UnsupportedByVersion:
        raise
    except (Damage, ValueError) as error:
        raise BadInput(f"a packed record cannot be unpacked: {error}") from error
    for body, tag, key, headers, id, corr_offset in rows:
        yield format.pack_single(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)


def pack_batch(batch: Batch, tag: str, compression: int, record_size_max: int, marker: bytes = b"") -> Iterator[Packed]:
    """Yields as few records as possible for the batch, each with the marker.

    None exceeds the limit unless one message does.
    """
    try:
        offsets = _offsets(batch.bodies)
    except TypeError:
        check_bodies(batch.bodies)
        raise

    def pack(start: int, end: int) -> Packed:
        return pack_columns(batch.part(start, end), ends_of(offsets, start, end), tag, compression, marker)

    return pack_parts(offsets, record_size_max, pack)


def pack_parts(offsets: Offsets, record_size_max: int, pack: Callable[[int, int], Packed]) -> Iterator[Packed]:
    """Yields the result of `pack` for ranges of rows, divided so that the bodies of each range suit a record."""
    for start, end in _cut(offsets, record_size_max):
        yield from _pack_fitting(start, end, record_size_max, pack)


def _pack_fitting(start: int, end: int, record_size_max: int, pack: Callable[[int, int], Packed]) -> Iterator[Packed]:
    """Yields one record, or more if keys, tags and headers make it too large. A single message is never divided."""
    packed = pack(start, end)
    middle = start + (end - start) // 2
    if record_size(packed) <= record_size_max or middle == start:
        yield packed
        return
    yield from _pack_fitting(start, middle, record_size_max, pack)
    yield from _pack_fitting(middle, end, record_size_max, pack)


def _cut(offsets: Offsets, record_size_max: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of rows for a record each, by the sizes of their bodies."""
    count, size_target = len(offsets) - 1, min(BATCH_SIZE_TARGET, record_size_max // 2)
    if 0 < count <= BATCH_COUNT_MAX and offsets[-1] - offsets[0] <= min(size_target, BODY_SIZE_MAX):
        yield 0, count
        return
    size_max = int(np.diff(offsets).max(initial=0))
    if size_max > BODY_SIZE_MAX:
        raise TooLarge("body", size_max, BODY_SIZE_MAX)
    start = 0
    while start < count:
        end = int(np.searchsorted(offsets, offsets[start] + size_target, "right")) - 1
        end = max(start + 1, min(end, start + BATCH_COUNT_MAX))
        yield start, end
        start = end


def _offsets(parts: Sequence[bytes]) -> Offsets:
    count = len(parts)
    if count and len(parts[0]) == len(parts[count // 2]) == len(parts[-1]):
        # If all sizes are equal, no cumulative sum is needed.
        sizes = list(map(len, parts))
        if sizes.count(sizes[0]) == count and sizes[0]:
            return np.arange(0, sizes[0] * count + 1, sizes[0])
    ends = np.zeros(count + 1, np.int64)
    ends[1:] = np.fromiter(map(len, parts), np.int64, count)
    return np.cumsum(ends, out=ends)


def ends_of(offsets: Offsets, start: int, end: int) -> Ends:
    """Returns the ends of the pieces from `start` up to `end`, as a record stores them."""
    part = offsets[start : end + 1]
    return (part - part[0] if part[0] else part).astype(END)


def pack_columns(batch: Batch, ends: Ends, tag: str = "", compression: int = 0, marker: bytes = b"") -> Packed:
    """Returns one record that holds the whole batch, ready to be stamped. All messages share `tag`."""
    try:
        bodies = b"".join(batch.bodies)
    except TypeError:
        check_bodies(batch.bodies)
        raise
    if len(bodies) != ends[-1]:
        raise BadInput("each body must be bytes; a memoryview must have items of one byte")
    sections: Sections = [(SECTION_BODY_ENDS, ends.tobytes()), (SECTION_BODIES, bodies)]
    if batch.tags is not None:
        sections += _tag_sections(batch.tags)
    if batch.keys is not None:
        sections += _key_sections(batch.keys)
    if batch.ids is not None:
        sections += _blob_sections(SECTION_ID_ENDS, [text_bytes("id", id, ID_SIZE_MAX) for id in batch.ids])
    if batch.headers is not None:
        packed = [pack_headers(headers) if headers else b"" for headers in batch.headers]
        sections += _blob_sections(SECTION_HEADERS_ENDS, packed)
    if batch.corr_offsets is not None:
        sections.append((SECTION_CORR_OFFSETS, _numbers(batch.corr_offsets).tobytes()))
    return pack_sections(sections, len(batch.bodies), tag, compression, marker)


def _numbers(values: Sequence[int]) -> npt.NDArray[np.int64]:
    try:
        return np.array(list(map(check_corr_offset, values)), np.int64)
    except TypeError as error:
        raise BadInput("corr_offsets: expected an int for each") from error


def _blob_sections(kind: int, parts: Sequence[bytes]) -> Sections:
    """Returns a section of the ends of `parts`, and the section of the parts that follows it."""
    return [(kind, _offsets(parts).astype(END).tobytes()), (kind + 1, b"".join(parts))]


def _tag_sections(tags: Sequence[str]) -> Sections:
    """Returns a section with each tag once, and a section with the place of its tag for each message."""
    dictionary = dict.fromkeys(tags)
    if len(dictionary) == len(tags):
        codes = np.arange(len(tags), dtype=np.uint16)
    else:
        places = dict(zip(dictionary, range(len(dictionary)), strict=True))
        codes = np.fromiter(map(places.__getitem__, tags), np.uint16, len(tags))
    return [(SECTION_TAG_CODES, codes.tobytes()), (SECTION_TAGS, pack_tags(dictionary))]


def pack_tags(tags: Iterable[str]) -> bytes:
    """Returns the dictionary of tags: each tag follows its size."""
    try:
        # If the text is ASCII, sizes in characters are sizes in bytes, and one join builds all.
        text = "".join(chain.from_iterable(zip(map(chr, map(len, tags)), tags, strict=True)))
        if "".join(tags).isascii() and max(map(len, tags), default=0) <= TAG_SIZE_MAX:
            return text.encode("latin-1")
    except (TypeError, ValueError, OverflowError):
        pass
    texts = [text_bytes("tag", tag, TAG_SIZE_MAX) for tag in tags]
    return b"".join(bytes((len(text),)) + text for text in texts)


def _key_sections(keys: Sequence[bytes | None]) -> Sections:
    try:
        ends = _offsets(keys)  # type: ignore[arg-type]  # None is a TypeError
        data = b"".join(keys)  # type: ignore[arg-type]
        if len(keys) and int(np.diff(ends).max()) <= KEY_SIZE_MAX and len(data) == ends[-1]:
            return [(SECTION_KEY_ENDS, ends.astype(END).tobytes()), (SECTION_KEY_ENDS + 1, data)]
    except TypeError:
        pass
    sections = _blob_sections(SECTION_KEY_ENDS, [b"" if key is None else key_bytes(key) for key in keys])
    if None in keys:
        present = np.fromiter((key is not None for key in keys), np.uint8, len(keys))
        sections.append((SECTION_KEY_PRESENT, present.tobytes()))
    return sections


def pack_sections(sections: Sections, count: int, tag: str, compression: int, marker: bytes) -> Packed:
    """Returns one record of these sections, with a section of the marker if there is one."""
    tag_data = text_bytes("tag", tag, TAG_SIZE_MAX)
    if marker:
        sections = [*sections, (SECTION_MARKER, marker)]
    table = COLUMNS_HEAD.pack(len(sections), 0)
    table += b"".join([SECTION.pack(kind, len(data)) for kind, data in sections])
    area: list[bytes | memoryview] = [table]
    for _, data in sections:
        area += (data, bytes(-len(data) % ALIGNMENT))
    small = compress(b"".join(area), compression) if compression else None
    if small is not None:
        area = [small]
    head = PAYLOAD_HEAD.pack(
        count, NO_CORR_OFFSET, CODEC_COLUMNS, 0, len(tag_data), 0 if small is None else compression, NO_KEY, 0
    )
    body_at = len(head) + len(tag_data)
    payload = b"".join((head, tag_data, bytes(columns_at(body_at) - body_at), *area))
    return Packed(payload, crc32c(payload), count)
