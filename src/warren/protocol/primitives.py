"""Packs and unpacks every byte of the wire: Kafka's primitive types, big-endian, each read within bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final

from warren.storage.format.layout import KAFKA_BATCH_HEAD

Buffer = bytes | bytearray | memoryview
Read = Callable[[memoryview, int], tuple[Any, int]]
"""Reads a value at a position. Returns it and the position after it. Raises one of UNREADABLE if there is none."""
Write = Callable[[bytearray, Any], None]
"""Writes a value at the end of the buffer."""

REQUEST_ELEMENTS_MAX: Final = 20_000
"""The largest number of elements in all arrays of a request that are nested in the elements of another array."""
TAGGED_FIELDS_MAX: Final = 32
"""The largest number of tagged fields in one struct of a request. Kafka's own messages have fewer than ten."""
UNREADABLE: Final = (error, IndexError, ValueError)
"""The errors that reading raises if the bytes are wrong."""

INT16: Final = Struct(">h")
INT8: Final = Struct(">b")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
FIXED_FORMATS: Final[dict[str, str]] = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
UUID_SIZE: Final = 16
NO_UUID: Final = bytes(UUID_SIZE)
COPIED_SIZE_MAX: Final = 64 << 10
"""Larger values are not copied into the message that carries them."""
VARINT_SIZE_MAX: Final = 5
VARINT_END: Final = 0x80
"""From this value on, a varint takes more than one byte."""


def fixed(kinds: Sequence[str]) -> Struct:
    """Returns the layout of consecutive values of fixed size."""
    return Struct(">" + "".join(FIXED_FORMATS[kind] for kind in kinds))


# --- Headers of requests and responses -----------------------------------------------------------------------------

REQUEST_HEAD: Final = Struct(">hhih")
"""Key, version, correlation id and the size of the client id, at the start of every request.

That size takes two bytes in every version, because a broker must be able to read heads of newer requests.
"""
CORRELATION_ID: Final = INT32
RESPONSE_HEAD: Final = Struct(">ii")
"""The size of a response, and its correlation id."""
FLEXIBLE_RESPONSE_HEAD: Final = Struct(">iiB")
"""The same, and the number of tagged fields that follow."""
THROTTLE_TAG: Final = Struct(">BBi")
"""The only tagged field of such a head, in Warren's own answers: its number, its size, and milliseconds."""

# --- Our own Append of one record -----------------------------------------------------------------------------------

SINGLE_APPEND: Final = Struct(">??BiqBBiiq")
"""Retry flag, receipt flag; one position: partition and number; one record: partition, messages and checksum."""
SINGLE_ANSWER: Final = Struct(">BBiqBqqiB")
"""No error; one position: partition, number; offset, timestamp and count of partitions."""
SINGLE_FRAME: Final = Struct(">iBBBiqBqqiB")
"""The same after the head of an answer."""
FETCH_SHARD_NUMBERS: Final = Struct(">qqiB")
"""The end of a fetch of a slave: answer that it follows, barrier, largest size, tags."""
FETCHED_SHARD_HEAD: Final = Struct(">BBiB")
"""The start of its answer: no error, no refusal, epoch, and the size of the nonce."""
FETCHED_SHARD_NUMBERS: Final = Struct(">qqB")
"""Number, barrier, and the count of items plus one."""
FETCHED_SHARD_ITEM: Final = Struct(">qqqqi")
"""Block, position, first, end and number of an item, between its subject and its data."""

# --- Produce and Fetch ----------------------------------------------------------------------------------------------

ACKS_AND_TIMEOUT: Final = Struct(">hi")
SINGLE_PRODUCE_FIELDS: Final = 6
"""The number of fields of a Produce for one partition before the head of its batch."""
LAYOUTS_MAX: Final = 1000
PRODUCED_PARTITION: Final = Struct(">ihqq")
"""Index, error code, base offset and append time of a Produce response, up to version 4."""
PRODUCED_PARTITION_V5: Final = Struct(">ihqqq")
"""The same, and the first number of the log."""
FETCHED_PARTITION_V4: Final = Struct(">ihqq")
"""Index, error code, high watermark and last stable offset of a Fetch response."""
FETCHED_PARTITION_V5: Final = Struct(">ihqqq")
"""The same, and the first number of the log."""
FETCH_RESPONSE_V4: Final = INT32
"""The throttle time."""
FETCH_RESPONSE_V7: Final = Struct(">ihi")
"""Throttle time, error code and session id."""
FETCH_REQUEST_V4: Final = Struct(">4xiiix")
"""Longest wait, least and most bytes. Skipped: the replica before them, and the isolation level after them."""
FETCH_REQUEST_V7: Final = Struct(">4xiiix8x")
"""The same. Also skipped: the id and the epoch of the session."""
FETCH_REQUEST_V15: Final = Struct(">iiix8x")
"""The same for a request that has no replica."""
WANTED_PARTITION_V4: Final = Struct(">iqi")
"""Partition, offset and maximum of bytes; later versions have more fields in between."""
WANTED_PARTITION_V5: Final = Struct(">iq8xi")
WANTED_PARTITION_V9: Final = Struct(">iiq8xi")
"""With the epoch of the leader as the client knows it, behind the partition."""
WANTED_PARTITION_V12: Final = Struct(">iiq12xi")

# --- The tables of Arrow's messages, which are little-endian ----------------------------------------------------------

ARROW_OFFSET: Final = Struct("<I")
ARROW_BACK: Final = Struct("<i")
"""The distance from a table back to its list of field positions."""
ARROW_FIELD: Final = Struct("<H")
"""The position of a field in its table; 0 for a field that is missing."""

# --- Reading --------------------------------------------------------------------------------------------------------


def read_varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most five bytes."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while shift < 7 * VARINT_SIZE_MAX:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a varint of more than five bytes")


def read_size16(data: memoryview, position: int) -> tuple[int, int]:
    """Reads a size of two bytes; −1 for null."""
    return INT16.unpack_from(data, position)[0], position + INT16.size


def read_size32(data: memoryview, position: int) -> tuple[int, int]:
    """Reads a size or count of four bytes; −1 for null."""
    return INT32.unpack_from(data, position)[0], position + INT32.size


def read_compact_size(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Reads a size or count that is stored as a varint of one more; −1 for null."""
    size, position = read_varint(data, position)
    return size - 1, position


def text_reader(read_size: Read, *, is_nullable: bool) -> Read:
    """Returns a reader of strings after their size."""

    def read(data: memoryview, position: int) -> tuple[str | None, int]:
        size, position = read_size(data, position)
        end = position + size
        if size < 0:
            check_null(size, is_nullable)
            return None, position
        if end > len(data):
            raise ValueError(f"a string of {size} bytes exceeds the end")
        return str(data[position:end], "utf-8"), end

    return read


def bytes_reader(read_size: Read, *, is_nullable: bool, is_view: bool = False) -> Read:
    """Returns a reader of bytes after their size. With `is_view` they are not copied."""

    def read(data: memoryview, position: int) -> tuple[bytes | memoryview | None, int]:
        size, position = read_size(data, position)
        end = position + size
        if size < 0:
            check_null(size, is_nullable)
            return None, position
        if end > len(data):
            raise ValueError(f"{size} bytes exceed the end")
        return data[position:end] if is_view else bytes(data[position:end]), end

    return read


def check_null(size: int, is_nullable: bool) -> None:
    """Raises ValueError if a negative size does not stand for null."""
    if size != -1 or not is_nullable:
        raise ValueError(f"a size of {size}")


def read_count(read_size: Read, data: memoryview, position: int, count_max: int | None = None) -> tuple[int, int]:
    """Reads a count; −1 for null. Raises ValueError if it is over `count_max` or the number of bytes that follow."""
    count, position = read_size(data, position)
    if not -1 <= count <= len(data) - position:
        raise ValueError(f"{count} elements in {len(data) - position} bytes")
    if count_max is not None and count > count_max:
        raise ValueError(f"{count} elements are over the limit of {count_max}")
    return count, position


def array_reader(
    read_element: Read,
    read_size: Read,
    *,
    is_nullable: bool,
    count_max: int | None = None,
    weigh: Callable[[Any], int] | None = None,
) -> Read:
    """Returns a reader of elements after their count, which is `count_max` at most.

    `weigh` returns how many elements the arrays within an element hold. All together may hold REQUEST_ELEMENTS_MAX,
    because many arrays of a few elements each cost as much as one of many.
    """

    def read(data: memoryview, position: int) -> tuple[list[Any] | None, int]:
        count, position = read_count(read_size, data, position, count_max)
        if count < 0:
            check_null(count, is_nullable)
            return None, position
        elements, inner_count = [], 0
        for _ in range(count):
            element, position = read_element(data, position)
            elements.append(element)
            if weigh is not None:
                inner_count += weigh(element)
                if inner_count > REQUEST_ELEMENTS_MAX:
                    raise ValueError(f"more than {REQUEST_ELEMENTS_MAX} elements in total")
        return elements, position

    return read


def fixed_array_reader(kind: str, read_size: Read, *, is_nullable: bool, count_max: int | None = None) -> Read:
    """Returns a reader of elements of fixed size after their count. It reads all of them in one step."""
    size, code = fixed([kind]).size, FIXED_FORMATS[kind]

    def read(data: memoryview, position: int) -> tuple[list[Any] | None, int]:
        count, position = read_count(read_size, data, position, count_max)
        if count < 0:
            check_null(count, is_nullable)
            return None, position
        end = position + count * size
        if end > len(data):
            raise ValueError(f"{count} elements of {size} bytes exceed the end")
        return [value for (value,) in Struct(">" + code).iter_unpack(data[position:end])], end

    return read


def fixed_reader(kind: str) -> Read:
    """Returns a reader of one value of fixed size."""
    layout = fixed([kind])

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        return layout.unpack_from(data, position)[0], position + layout.size

    return read


def read_tag_count(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Returns how many tagged fields follow. Raises ValueError if there are more than TAGGED_FIELDS_MAX."""
    count, position = read_varint(data, position)
    if count > TAGGED_FIELDS_MAX:
        raise ValueError(f"{count} tagged fields are over the limit of {TAGGED_FIELDS_MAX}")
    return count, position


def skip_tags(data: memoryview, position: int) -> int:
    """Returns the position after tagged fields that are not read. Raises ValueError if there are too many."""
    count, position = read_tag_count(data, position)
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    if position > len(data):
        raise ValueError("tagged fields exceed the end")
    return position


@lru_cache(LAYOUTS_MAX)
def single_produce_layout(id_size: int, named_size: int, size_size: int) -> Struct:
    """Returns the layout of the body of a Produce for one partition, up to the end of its batch's head.

    Transactional id; acks; timeout; the counts of topics and partitions with the name between them; partition; size of
    the records; the head of the batch. The arguments are the sizes of the fields.
    """
    return Struct(f">{id_size}shi{named_size}si{size_size}s{KAFKA_BATCH_HEAD.format[1:]}")


# --- Writing --------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Returns an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def size16(size: int) -> bytes:
    """Returns a size in two bytes; −1 is null."""
    return INT16.pack(size)


def size32(size: int) -> bytes:
    """Returns a size or count in four bytes; −1 is null."""
    return INT32.pack(size)


def compact_size(size: int) -> bytes:
    """Returns a size or count as a varint of one more; −1 is null."""
    return varint(size + 1)


def text_writer(size: Callable[[int], bytes]) -> Write:
    """Returns a writer of strings, or null, after their size."""

    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            out += size(-1)
        else:
            data = value.encode()
            out += size(len(data))
            out += data

    return write


def bytes_writer(size: Callable[[int], bytes]) -> Write:
    """Returns a writer of bytes, or null, after their size."""

    def write(out: bytearray, value: bytes | memoryview | None) -> None:
        if value is None:
            out += size(-1)
            return
        out += size(len(value))
        if len(value) > COPIED_SIZE_MAX and isinstance(out, Out):
            out.cuts.append((len(out), (value,)))
        else:
            out += value

    return write


class Out(bytearray):
    """A message that is being written. Large values are not copied into it: `cuts` holds their positions."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts: list[tuple[int, Sequence[Buffer]]] = []

    def buffers(self) -> list[Buffer]:
        """Returns the whole message, piece by piece."""
        if not self.cuts:
            return [bytes(self)]
        pieces: list[Buffer] = []
        written, position = memoryview(bytes(self)), 0
        for cut, batches in self.cuts:
            pieces += (written[position:cut], *batches)
            position = cut
        if position < len(written):
            pieces.append(written[position:])
        return pieces


def records_writer(size: Callable[[int], bytes]) -> Write:
    """Returns a writer of record batches, or null, after their size. It takes buffers and does not copy them."""

    def write(out: bytearray, value: Buffer | Sequence[Buffer] | None) -> None:
        if value is None:
            out += size(-1)
            return
        batches = [value] if isinstance(value, bytes | bytearray | memoryview) else value
        out += size(sum(map(len, batches)))
        assert isinstance(out, Out)
        out.cuts.append((len(out), batches))

    return write


def array_writer(write_element: Write, size: Callable[[int], bytes]) -> Write:
    """Returns a writer of elements, or null, after their count."""

    def write(out: bytearray, value: Sequence[Any] | None) -> None:
        if value is None:
            out += size(-1)
        else:
            out += size(len(value))
            for element in value:
                write_element(out, element)

    return write


def fixed_writer(kind: str) -> Write:
    """Returns a writer of one value of fixed size."""
    pack = fixed([kind]).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write
