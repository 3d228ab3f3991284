"""A replica's directory in memory: logs of byte strings and state files, without blocks and without a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warren.replication.barrier import Barriers
from warren.replication.changes import FileContent, FileGone, FilePatch, Item, LogRange, NewLog, RemovedLog
from warren.replication.comparison import FileRow, FileRows, RecordsDigest
from warren.replication.disk.replica import Differences, Ranges, StateDigests
from warren.replication.epochs import Epochs

SIZE = 4
"""Every record has this many bytes."""


class FakeReplica:
    """What is on one disk. It outlives the processes of a replica, as a directory does."""

    def __init__(self, incarnation: str, boot: str = "boot") -> None:
        self.incarnation, self.boot = incarnation, boot
        self.epochs = Epochs.founded("")
        self.logs: dict[str, list[bytes]] = {}
        self.files: dict[str, bytes] = {}
        self.visible_ends: dict[str, int] = {}
        self.barriers: Barriers | None = None
        self.noted: Callable[[], None] = lambda: None

    def keep_epochs(self, epochs: Epochs) -> None:
        self.epochs = epochs

    def settle(self) -> None: ...

    def is_empty(self) -> bool:
        return not self.files and not any(self.logs.values())

    def tails(self) -> Mapping[str, int]:
        return {log: len(records) for log, records in self.logs.items()}

    def first(self) -> Mapping[str, int]:
        return {}

    def visible(self) -> Mapping[str, int]:
        return dict(self.visible_ends)

    def cut_logs(self, cuts: Mapping[str, int], first: Mapping[str, int]) -> None:
        self.logs = {log: self.logs.get(log, [])[:end] for log, end in cuts.items()}

    def start_from_nothing(self) -> None:
        self.incarnation += "'"
        self.logs, self.files, self.epochs = {}, {}, Epochs.founded("")

    def compare_state(self, digests: Mapping[str, bytes]) -> Differences:
        different = [path for path, digest in digests.items() if self.files.get(path) != digest]
        return Differences(different, [path for path in self.files if path not in digests])

    def write_state(self, contents: Mapping[str, bytes | None]) -> None:
        for path, content in contents.items():
            if content is None:
                self.files.pop(path, None)
            else:
                self.files[path] = content

    def apply(self, items: Sequence[Item]) -> None:
        for item in items:
            match item:
                case LogRange(log=log, first=first, end=end, data=data):
                    records = self.logs.setdefault(log, [])
                    assert len(records) == first, f"{log} ends at {len(records)}, and the range begins at {first}"
                    records += [bytes(data[at : at + SIZE]) for at in range(0, (end - first) * SIZE, SIZE)]
                case FileContent(path, content):
                    if path != "replication/epochs.json":
                        self.files[path] = content
                case FilePatch():
                    raise AssertionError("no test patches a file")
                case FileGone(path):
                    self.files.pop(path, None)
                case NewLog(log):
                    self.logs.setdefault(log, [])
                case RemovedLog(log):
                    self.logs.pop(log, None)

    def show(self, ends: Mapping[str, int]) -> None:
        self.visible_ends |= ends

    def lead(self, barriers: Barriers, epoch: int, noted: Callable[[], None], failed: Callable[[str], None]) -> Any:
        self.barriers, self.noted = barriers, noted
        return self

    def serve(self) -> None: ...

    def ranges(self, ranges: Sequence[tuple[str, int, int]], size_max: int) -> Ranges | None:
        items = [LogRange(log, 0, first, first, end, (end - first) * SIZE) for log, first, end in ranges]
        filled = self.filled(items)
        return None if filled is None else Ranges(filled, [])

    def filled(self, items: Sequence[Item]) -> Sequence[Item] | None:
        filled: list[Item] = []
        for item in items:
            if isinstance(item, LogRange):
                if item.log not in self.logs:
                    return None
                data = b"".join(self.logs[item.log][item.first : item.end])
                item = item._replace(data=memoryview(data), size=len(data))
            filled.append(item)
        return filled

    def digests(self, after: str) -> StateDigests:
        return StateDigests({path: self.files[path] for path in sorted(self.files) if path > after}, True)

    def contents(self, paths: Sequence[str], size_max: int) -> Mapping[str, bytes | None]:
        return {path: self.files.get(path) for path in paths}

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        return FileRows([FileRow(path, self.files[path]) for path in sorted(self.files) if path > after], True)

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        records = self.logs.get(log)
        return None if records is None else RecordsDigest(0, len(records), end, b"".join(records[start:end]))

    def close(self) -> None: ...

    # --- In place of a store ---

    def put(self, log: str, record: bytes) -> int:
        """Lays a record as master, synced. Returns its barrier."""
        assert self.barriers is not None
        assert len(record) == SIZE
        now = time.monotonic()
        if log not in self.logs:
            self.logs[log] = []
            self.barriers.synced(self.barriers.next(NewLog(log, 2), now))
        number = len(self.logs[log])
        self.logs[log].append(record)
        barrier = self.barriers.next(LogRange(log, 0, number, number, number + 1, SIZE), now)
        self.barriers.synced(barrier)
        self.noted()
        return barrier

    def write(self, path: str, content: bytes) -> int:
        """Writes a state file as master, synced. Returns its barrier."""
        assert self.barriers is not None
        self.files[path] = content
        barrier = self.barriers.next(FileContent(path, content), time.monotonic())
        self.barriers.synced(barrier)
        self.noted()
        return barrier
