"""What differs between the versions of the format, in one table: how records are packed, stamped, found and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Final, Protocol

from warren.storage import record, zbus
from warren.storage.record import DiskMessage, Packed


class PackSingle(Protocol):
    """Makes a record, still without its stamp, of one message."""

    def __call__(
        self,
        body: bytes,
        *,
        tag: str = "",
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = -1,
        compression: int = 0,
    ) -> Packed: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One version. Blocks of version 2 start with meta-data and hold batches; those of version 1 do neither.

    Times are kept in ticks of `us_per_tick` µs.
    """

    version: int
    pack_single: PackSingle
    stamp: Callable[[Packed, int, int, int], bytes]
    record_size: Callable[[Packed], int]
    next_blob: Callable[[mmap, int, int], tuple[int, bool]]
    read_stamp: Callable[[mmap, int, int], tuple[int, int, int]]
    read_record: Callable[[mmap, int, int, int], DiskMessage]
    has_meta_data: bool
    us_per_tick: int


FORMATS: Final[Mapping[int, Format]] = {
    1: Format(
        version=1,
        pack_single=zbus.pack_single,
        stamp=zbus.stamp,
        record_size=zbus.record_size,
        next_blob=zbus.next_blob,
        read_stamp=zbus.read_stamp,
        read_record=zbus.read_record,
        has_meta_data=False,
        us_per_tick=1000,
    ),
    2: Format(
        version=2,
        pack_single=record.pack_single,
        stamp=record.stamp,
        record_size=record.record_size,
        next_blob=record.next_blob,
        read_stamp=record.read_stamp,
        read_record=record.read_record,
        has_meta_data=True,
        us_per_tick=1,
    ),
}
