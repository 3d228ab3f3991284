"""Changes in one replica's files, made by hand, that a comparison of replicas has to find."""

from __future__ import annotations

from pathlib import Path

from warren.storage import Log
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import PAYLOAD_AT, SIZE_MASK, SIZE_WORD
from warren.storage.read.log_view import LogView

CHECKSUM_AT = 4


def change_body(log: Path, number: int, *, has_right_checksum: bool = True) -> None:
    """Flips the last bits of the body of one message, of a record of its own."""
    with Log.open(log, read_only=True) as opened:
        stretch = LogView(opened._files).locate(number, opened.end)
        path, position = Path(stretch.block.path), stretch.block.find(number, stretch.limit)
        (word,) = SIZE_WORD.unpack_from(stretch.block.view, position)
    end = position + SIZE_WORD.size + (word & SIZE_MASK)
    with path.open("r+b") as file:
        file.seek(end - 1)
        last = file.read(1)[0]
        file.seek(end - 1)
        file.write(bytes([last ^ 1]))
        if has_right_checksum:
            file.seek(position + PAYLOAD_AT)
            payload = file.read(end - position - PAYLOAD_AT)
            file.seek(position + CHECKSUM_AT)
            file.write(SIZE_WORD.pack(crc32c(payload)))


def change_file(path: Path, at: int = 8) -> None:
    """Flips one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
