"""Files that Chronicle Queue wrote have the same size words as Warren's blocks."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warren.storage.format.layout import END_OF_BLOCK, META_DATA, NOT_READY, SIZE_MASK, SIZE_WORD

ARCHIVE = Path(__file__).parents[3] / "fixtures" / "chronicle" / "chronicle-real.tar.gz"
NAMES = ("cq-tr2/20170320.cq4", "cqv4/20211125.cq4", "qv5/20211118F.cq4", "qv5/metadata.cq4t")
USED_MAX = 1 << 20
"""The rest of a queue file of 80 MiB is free space."""


class Blob(NamedTuple):
    position: int
    content: bytes
    is_meta_data: bool


@cache
def fixture() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """The start of each file, and its manifest."""
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE.read_bytes())) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                files[member.name] = content.read(USED_MAX)
    return {name: (files[name], json.loads(files[name + ".manifest.json"])) for name in NAMES}


def walk(data: bytes, align: int) -> Iterator[Blob]:
    """Yields blobs by their size words; Chronicle aligns them less than Warren does, or not at all."""
    position = 0
    while True:
        (word,) = SIZE_WORD.unpack_from(data, position)
        if not word or word == END_OF_BLOCK:
            yield Blob(position, b"", is_meta_data=word == END_OF_BLOCK)
            return
        assert not word & NOT_READY
        start = position + SIZE_WORD.size
        end = start + (word & SIZE_MASK)
        yield Blob(position, data[start:end], is_meta_data=bool(word & META_DATA))
        position = (end + align - 1) // align * align


@pytest.mark.parametrize("name", NAMES)
def test_messages_and_meta_data_are_at_the_positions_of_the_manifest(name: str) -> None:
    data, manifest = fixture()[name]

    *blobs, end = walk(data, manifest["align"])

    for kind, is_meta_data in (("data", False), ("meta", True)):
        chosen = [blob for blob in blobs if blob.is_meta_data == is_meta_data]
        assert [(blob.position, len(blob.content)) for blob in chosen] == [
            (each["offset"], each["length"]) for each in manifest[kind]
        ]
        assert [sha256(blob.content).hexdigest() for blob in chosen] == [each["sha256"] for each in manifest[kind]]
    assert end.position == manifest["end"]["offset"]
    assert end.is_meta_data == ("EOF" in manifest["end"]["kind"])


def test_the_payloads_are_the_ones_that_were_written() -> None:
    data, manifest = fixture()["cqv4/20211125.cq4"]

    messages = [blob.content for blob in walk(data, manifest["align"]) if not blob.is_meta_data and blob.content]

    assert messages[:3] == [b"one", b"two", b"three"]
    assert len(messages) == 4
    assert messages[3].startswith(b"a much longer item")


def test_a_file_starts_with_a_header_an_index2index_and_an_index_as_a_block_does() -> None:
    for name in ("cqv4/20211125.cq4", "qv5/20211118F.cq4"):
        data, manifest = fixture()[name]

        header, index2index, index, *_ = walk(data, manifest["align"])

        assert [blob.is_meta_data for blob in (header, index2index, index)] == [True] * 3
        assert [blob.content[2:].startswith(label) for blob, label in ((header, b"header"), (index, b"index"))] == [
            True
        ] * 2
        assert index2index.content[2:].startswith(b"index2index")
