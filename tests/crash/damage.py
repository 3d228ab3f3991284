"""Small logs, each byte of which is changed and each file cut at each length; and every way to read the rest.

Run in its own process, `python -m tests.crash.damage KIND ORIGINAL SCRATCH PART PARTS`: a mistake here may end the
interpreter itself. Each wound is noted in `SCRATCH/progress` before it is inflicted, so that the one that ended it is
known.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from tests.support.compression import Compression
from tests.support.kafka_batches import packed_rows
from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.simulated_clock import SimulatedClock
from warren.errors import CorruptRecord, StorageError
from warren.message import Message
from warren.storage import Log

MASKS: Final = (0x01, 0x80, 0xFF)
WOUND_S_MAX: Final = 10
SPARE: Final = 64
FREE_STEP: Final = 31
PART_STEPS: Final = {"group": 13}
PART_STEP: Final = 5
WHOLE_KINDS: Final = ("singles", "columns", "compressed", "kafka")
BLOCK_SIZE: Final = 8 << 10
BLOCK_SIZES: Final = {"blocks": 4 << 10}
READER_NAME: Final = "billing"
READER_POSITION: Final = 3
FILES: Final = MoodyFileSystem(really_syncs=False)

Answer = TypeVar("Answer")


class Wound(NamedTuple):
    """One byte of one file changed by `mask`; or, without a mask, the file cut to `position` bytes."""

    file: str
    position: int
    mask: int | None

    def inflict(self, content: bytes) -> bytes:
        if self.mask is None:
            return content[: self.position]
        changed = bytearray(content)
        changed[self.position] ^= self.mask
        return bytes(changed)

    def __str__(self) -> str:
        damage = "cut" if self.mask is None else f"xor {self.mask:#04x}"
        return f"{self.file} {damage} at {self.position}"


# --- The logs ---


def build(kind: str, path: str) -> None:
    """Writes the log of that kind, and closes it."""
    clock = SimulatedClock()
    compression: Compression = "zstd" if kind == "compressed" else "none"
    log = Log.open(
        path,
        block_size=BLOCK_SIZES.get(kind, BLOCK_SIZE),
        max_block_count=4,
        filesystem=FILES,
        clock=clock,
        compression=compression,
    )
    with log:
        log.flag = 7
        log.extension = {"creator": "test"}
        for step in KINDS[kind]:
            step(log)
            clock.pass_ns(1_000_000)
        reader = log.reader(READER_NAME, tag="eu.*;us")
        for position in (1, READER_POSITION):
            reader.seek(position)
            reader.commit()


def _single(log: Log) -> None:
    log.append(b"plain")
    log.append(b"whole", tag="eu.de", key=b"k", headers={"trace": b"1"}, id="id-1", corr_offset=0)


def _columns(log: Log) -> None:
    bodies = [b"body-%d" % place for place in range(5)]
    tags = ["eu.de", "us", "", "eu.fr", "us"]
    keys = [b"a", None, b"", b"b", b"c"]
    headers = [{"trace": b"1"}, None, None, {"x": b"y"}, None]
    log.append_many(bodies, tags=tags, keys=keys, ids=[f"id-{place}" for place in range(5)], headers=headers)


def _shared_tag(log: Log) -> None:
    log.append_many([b"one", b"two", b""], tag="us")


def _compressible(log: Log) -> None:
    log.append(b"a" * 300, tag="eu.de")
    log.append_many([b"b" * 200, b"c" * 200], tag="us")


def _large(log: Log) -> None:
    log.append(bytes(range(256)) * 7, tag="eu.de")


def _group(log: Log) -> None:
    """Enough single records that a scan takes sixty-four of them together."""
    for place in range(67):
        log.append(b"%d" % place, tag="us" if place % 2 else "")


def _kafka(log: Log) -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"one", "tag": "eu.de", "key": b"k", "id": "id-1", "headers": {"trace": b"1"}},
        {"body": b"", "corr_offset": 9},
        {"body": b"three", "tag": "us"},
    ]
    log.append_packed([packed_rows(rows)])


def _kafka_compressed(log: Log) -> None:
    log.append_packed([packed_rows([{"body": b"a" * 40, "tag": "us"}] * 4, compression=4)])


KINDS: Final[Mapping[str, Sequence[Callable[[Log], None]]]] = {
    "singles": (_single, _single, _single),
    "columns": (_columns, _shared_tag),
    "mixed": (_single, _columns, _single, _shared_tag),
    "compressed": (_compressible, _single, _compressible),
    "group": (_group, _columns),
    "kafka": (_kafka, _kafka_compressed, _single),
    "trains": (_shared_tag,) * 6,
    "blocks": (_large, _single, _large, _large, _columns, _large, _single),
}


# --- The wounds ---


def wounds(kind: str, files: Mapping[str, bytes]) -> list[Wound]:
    """Yields one wound for each byte and each length of each file. Masks take turns, so that neighbours are hit
    differently.

    A sample stands for free space, for logs that repeat others, and for files that are the same in all of them.
    """
    result: list[Wound] = []
    for file, content in sorted(files.items()):
        is_whole = kind in WHOLE_KINDS if file.endswith(".block") else kind == WHOLE_KINDS[0]
        used = len(content.rstrip(b"\0")) + SPARE
        places = range(0, min(used, len(content)), 1 if is_whole else PART_STEPS.get(kind, PART_STEP))
        for position in (*places, *range(used, len(content), FREE_STEP)):
            result += (Wound(file, position, MASKS[position % len(MASKS)]), Wound(file, position, None))
    return result


def read_files(path: Path) -> dict[str, bytes]:
    """Every file of a log, by its path within it."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "writer.lock"
    }


# --- Invariants ---


@dataclass(frozen=True, slots=True)
class Whole:
    """The log before the wound."""

    path: Path
    files: Mapping[str, bytes]
    messages: Sequence[Message]

    @classmethod
    def of(cls, path: Path) -> Whole:
        with Log.open(str(path), read_only=True, filesystem=FILES) as log:
            return cls(path, read_files(path), log.read(0, limit=1000))

    def end_at_least(self, wound: Wound) -> int:
        """Returns what recovery must keep: everything before the wound, and everything if a block was not the last.

        In the last block a record with a wrong checksum looks like one that a crash tore, and so do those after it. In
        an earlier block, in the index or in a reader, recovery may cut nothing.
        """
        blocks = sorted(name for name in self.files if name.endswith(".block"))
        if wound.file != blocks[-1]:
            return len(self.messages)
        place = int(wound.file.partition(".")[0]) + wound.position
        wounded = max((message.offset for message in self.messages if message.offset <= place), default=0)
        return sum(message.offset < wounded for message in self.messages)


class Examination:
    """Reads one wounded log in every way. Wrong data is an AssertionError; an error of storage is a valid result."""

    def __init__(self, whole: Whole, directory: str, end_at_least: int) -> None:
        self._whole, self._directory = whole, directory
        self._end_at_least = end_at_least
        self.errors = 0

    def run(self, *, read_only: bool, read_before: Mapping[str, bytes] | None = None) -> None:
        """Opens, reads in every way, and closes.

        If opening leaves every file as in `read_before`, the other ways to read were tried on these bytes before.
        """
        log = self._try(lambda: Log.open(self._directory, read_only=read_only, filesystem=FILES, block_size=BLOCK_SIZE))
        if log is None:
            return
        bounds = self._try(lambda: (log.first, log.end))
        if bounds is not None:
            first, end = bounds
            assert first == 0, f"the log starts at {first}"
            assert self._end_at_least <= end <= len(self._whole.messages), f"the log ends at {end}"
            if read_before is not None and read_files(Path(self._directory)) == read_before:
                self._same(self._whole.messages[:end], lambda: _read_all(log, end))
            else:
                self._examine(log, end)
            if not read_only:
                self._append(log, end)
        self._try(log.close)

    def _examine(self, log: Log, end: int) -> None:
        expected = list(self._whole.messages[:end])
        errors_before = self.errors
        for message in expected[:: 2 + len(expected) // 10]:
            result = self._try(partial(log.at, message.number))
            assert result in (message, None), f"{result} instead of {message}"
        self._same(expected, lambda: _read_all(log, end))
        self._same(expected[::-1], lambda: list(log.backwards(end - 1)) if end else [])
        self._same(expected[-3:], lambda: log.last(3))
        self._same([message for message in expected if message.tag == "us"], lambda: log.read(0, tag="us"))
        self._check_times(log, expected)
        self._check_scan(log, expected, end)
        read_errors = self.errors - errors_before
        if self._try(lambda: [log.verify()]):
            assert not read_errors, "verify passes, though reading fails"
        self._check_reader(log, expected)

    def _check_times(self, log: Log, expected: Sequence[Message]) -> None:
        for message in expected[:: 3 + len(expected) // 10]:
            at_or_after = [other.number for other in expected if other.timestamp >= message.timestamp]
            when = datetime.fromtimestamp(message.timestamp / 1_000_000, UTC)
            number = self._try(partial(log.find_time, when))
            assert number in (at_or_after[0], None), f"time {message.timestamp} is found at {number}"

    def _check_scan(self, log: Log, expected: Sequence[Message], end: int) -> None:
        whole = self._try(lambda: [row for batch in log.scan(0, end) for row in batch.to_pylist()])
        for name in ("number", "offset", "time", "id", "tag", "key", "corr_offset", "body"):
            values = [getattr(message, name) for message in expected]
            column = "timestamp" if name == "time" else name
            assert whole is None or [row[column] for row in whole] == values, name
        bodies = self._try(lambda: [row for batch in log.scan(0, end, columns=["body"], tag="us") for row in batch[0]])
        values = [message.body for message in expected if message.tag == "us"]
        assert bodies is None or [row.as_py() for row in bodies] == values

    def _check_reader(self, log: Log, expected: Sequence[Message]) -> None:
        reader = self._try(lambda: log.reader(READER_NAME))
        if reader is None:
            return
        assert reader.position == READER_POSITION
        with_tags = [message for message in expected[READER_POSITION:] if message.tag]
        self._same(with_tags, lambda: reader.read(limit=100))

    def _append(self, log: Log, end: int) -> None:
        receipt = self._try(lambda: log.append(b"after"))
        if receipt is not None:
            assert receipt.number == end
            message = self._try(lambda: log.at(end))
            assert message is None or message.body == b"after"

    def _same(self, expected: Sequence[Message], read: Callable[[], Sequence[Message]]) -> None:
        messages = self._try(read)
        assert messages is None or list(messages) == list(expected), f"{messages} instead of {expected}"

    def _try(self, call: Callable[[], Answer]) -> Answer | None:
        """Returns the result of the call; None if it raised an error of storage that names the place."""
        try:
            return call()
        except StorageError as error:
            self._check_place(error)
        self.errors += 1
        return None

    def _check_place(self, error: StorageError) -> None:
        if isinstance(error, CorruptRecord):
            assert error.path.startswith(self._directory), error
            assert error.position >= 0, error


def _read_all(log: Log, end: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < end:
        part = log.read(len(messages), limit=4 + end // 3)
        assert part, f"nothing at {len(messages)} of {end}"
        messages += part
    return messages


def examine(whole: Whole, scratch: Path, wound: Wound) -> int:
    """Wounds a copy of the log and reads it, first without the right to write. Returns the number of errors."""
    directory = scratch / "log"
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "readers").mkdir(parents=True)
    for file, content in whole.files.items():
        (directory / file).write_bytes(wound.inflict(content) if file == wound.file else content)
    reading = Examination(whole, str(directory), len(whole.messages))
    reading.run(read_only=True)
    after = read_files(directory)
    assert after[wound.file] == wound.inflict(whole.files[wound.file]), "reading changed a file"
    writing = Examination(whole, str(directory), whole.end_at_least(wound))
    writing.run(read_only=False, read_before=after)
    return reading.errors + writing.errors


def main(kind: str, original: str, scratch: str, part: str, parts: str) -> int:
    """Returns 0 if every wound of this part had a right result; otherwise 1, and prints the first that had not."""
    whole = Whole.of(Path(original))
    progress = os.open(os.path.join(scratch, "progress"), os.O_WRONLY | os.O_CREAT, 0o644)
    count = 0
    for wound in wounds(kind, whole.files)[int(part) :: int(parts)]:
        os.pwrite(progress, f"{wound}".ljust(80).encode(), 0)
        signal.alarm(WOUND_S_MAX)
        try:
            examine(whole, Path(scratch), wound)
        except Exception as error:
            raise AssertionError(f"{wound}: {type(error).__name__}: {error}") from error
        count += 1
    sys.stdout.write(f"{count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
