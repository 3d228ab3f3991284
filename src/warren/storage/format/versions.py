"""The differences between the versions of the format, in one table: how records are packed, stamped, found and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Final, Protocol

from warren.errors import UnsupportedByVersion
from warren.storage.format import record, zbus
from warren.storage.format.record import DiskMessage, Packed

VERSION_DEFAULT: Final = 2
VERSIONS: Final = (1, 2)


class PackSingle(Protocol):
    """Packs one message into a record without a stamp."""

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
    """One version of the format: its functions, and its features. Only the features are used outside of `storage`.

    Times are stored in ticks of `us_per_tick` µs.
    """

    version: int
    pack_single: PackSingle
    stamp: Callable[[Packed, int, int, int], bytes]
    record_size: Callable[[Packed], int]
    next_blob: Callable[[mmap, int, int], tuple[int, bool]]
    read_stamp: Callable[[mmap, int, int], tuple[int, int, int]]
    read_record: Callable[[mmap, int, int, int], DiskMessage]
    has_meta_data: bool
    """Whether blocks start with a header, and hold an index of their messages."""
    has_batches: bool
    """Whether a record can hold many messages, as columns or as a Kafka batch, and is stored
    completely or not at all.
    """
    keeps_markers: bool
    """Whether records have a marker, by which a put with an unknown outcome can be found."""
    keeps_all_fields: bool
    """Whether messages keep keys and headers, and ids and tags up to their limits."""
    has_compression: bool
    retires_exactly: bool
    """Whether the last block can be retired, and messages within a block."""
    us_per_tick: int

    def check_batches(self, what: str) -> None:
        """Raises UnsupportedByVersion if the format has no batches, which `what` needs."""
        if not self.has_batches:
            raise UnsupportedByVersion(what, self.version)

    def check_headers(self, what: str) -> None:
        """Raises UnsupportedByVersion if the format has no headers, which `what` needs."""
        if not self.keeps_all_fields:
            raise UnsupportedByVersion(what, self.version)


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
        has_batches=False,
        keeps_markers=False,
        keeps_all_fields=False,
        has_compression=False,
        retires_exactly=False,
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
        has_batches=True,
        keeps_markers=True,
        keeps_all_fields=True,
        has_compression=True,
        retires_exactly=True,
        us_per_tick=1,
    ),
}
