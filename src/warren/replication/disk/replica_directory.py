"""ReplicaDirectory: the directory of one replica, as slave, candidate and master."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CorruptRecord, CorruptSettings, UnsupportedByVersion
from warren.queue.state import paths as store_paths
from warren.queue.state.json_file import read_json
from warren.queue.state.settings import TopicSettings
from warren.replication.barrier import Barriers
from warren.replication.changes import (
    FileContent,
    FileGone,
    FilePatch,
    Item,
    LogFacts,
    LogRange,
    NewLog,
    RemovedLog,
)
from warren.replication.comparison import FileRow, FileRows, RecordsDigest
from warren.replication.disk.copy_digests import ROWS_MAX, digest_of, is_inside, log_row, records_digest, state_row
from warren.replication.disk.file_kinds import FileKind, is_local_directory, kind_of
from warren.replication.disk.log_facts import (
    CREATED_KEY,
    Facts,
    created_of,
    directory_of,
    facts_of,
    log_name,
    read_index,
)
from warren.replication.disk.old_records import BlockMaps, read_ranges
from warren.replication.disk.parallel_work import for_each
from warren.replication.disk.replica import Differences, Ranges, StateDigests
from warren.replication.disk.replicated_filesystem import ReplicatedFileSystem
from warren.replication.disk.shipped_paths import shipped_paths
from warren.replication.disk.state_changes import StateChanges
from warren.replication.epochs import EPOCHS_PATH, Epochs
from warren.storage.append.log_copy import COPY_VERSION, LogCopy
from warren.storage.disk import paths as log_paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, File, FileSystem, remove_tree, replace_file

INCARNATION_PATH: Final = "replication/incarnation"
MASTER_PATH: Final = "replication/master"
DIGESTS_MAX: Final = 1000


class ReplicaDirectory:
    """The directory of one replica. `Replica` in `warren.replication.disk.replica` is the contract.

    Invariant: each log and state file contains at least everything that this replica has acknowledged.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, filesystem: FileSystem = SYSTEM_FILE_SYSTEM, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._filesystem, self._clock = filesystem, clock
        self._copies: dict[str, LogCopy] = {}
        self._durable: dict[str, bool] = {}
        """Whether the records of a topic are synced before they are acknowledged, as its settings say."""
        self._barriers: Barriers | None = None
        self._leading: ReplicatedFileSystem | None = None
        self._maps = BlockMaps(filesystem)
        filesystem.make_directory(self._absolute("replication"))
        incarnation = self._read(INCARNATION_PATH)
        self.incarnation = incarnation.decode() if incarnation else self._take_incarnation()

    # --- Who this is ---

    def _take_incarnation(self) -> str:
        self.incarnation = uuid.uuid4().hex
        replace_file(self._filesystem, self._absolute(INCARNATION_PATH), self.incarnation.encode())
        return self.incarnation

    @property
    def boot(self) -> str:
        return self._filesystem.boot_id().hex()

    @property
    def is_power_safe(self) -> bool:
        """Whether everything that this replica acknowledges is on disk first.

        It is not if a topic waits for its slaves (replication `sync`) but does not sync its records (`commit`).
        """
        return all(
            settings.durability == "commit" or settings.replication == "async" for settings in self._topic_settings()
        )

    def _topic_settings(self) -> Iterator[TopicSettings]:
        directory = store_paths.topics_directory(self.path)
        names = self._filesystem.names(directory) if self._filesystem.exists(directory) else []
        for name in names:
            path = store_paths.topic_file(os.path.join(directory, name))
            data = read_json(self._filesystem, path)
            if data is not None:
                yield TopicSettings.from_json(path, data)

    @property
    def epochs(self) -> Epochs:
        data = self._read(EPOCHS_PATH)
        return Epochs.founded("") if data is None else Epochs.from_json(data)

    def keep_epochs(self, epochs: Epochs) -> None:
        replace_file(self._filesystem, self._absolute(EPOCHS_PATH), epochs.to_json())

    def note_master(self, address: str) -> None:
        """Keeps the address of the master for the error that a program gets if it opens this store to write."""
        if self._read(MASTER_PATH) != address.encode():
            replace_file(self._filesystem, self._absolute(MASTER_PATH), address.encode())

    # --- A slave or candidate ---

    def settle(self) -> None:
        filesystem = self._filesystem
        for directory, names in self._walk():
            relative = self._relative(directory)
            if self._is_log(names):
                copy = LogCopy(directory, filesystem, self._clock)
                if copy.version != COPY_VERSION:
                    raise UnsupportedByVersion("replication", copy.version)
                copy.sync()
                self._copies[log_name(relative, facts_of(copy.index))] = copy
            for name in names:
                path = os.path.join(directory, name)
                kind = kind_of(self._relative(path))
                if name.endswith((store_paths.NEW_SUFFIX, store_paths.RUN_SUFFIX)):
                    # The file is half written, or derived from records that may be cut.
                    with suppress(OSError):
                        filesystem.remove(path)
                elif kind is FileKind.STATE and not self._is_directory(path):
                    self._open(path).sync()

    def _is_log(self, names: Iterable[str]) -> bool:
        return any(name == "index" or log_paths.block_base_offset(name, COPY_VERSION) is not None for name in names)

    def is_empty(self) -> bool:
        # A slave that died between CutLogs and KeepEpochs has logs, but no messages and no state.
        store_file = self._relative(store_paths.store_file(self.path))
        state = (path for path in shipped_paths(self._filesystem, self.path) if kind_of(path) is FileKind.STATE)
        return all(path == store_file for path in state) and not any(self.tails().values())

    def tails(self) -> dict[str, int]:
        return {name: copy.end for name, copy in self._copies.items()}

    def first(self) -> dict[str, int]:
        return {name: first for name, copy in self._copies.items() if (first := facts_of(copy.index).first)}

    def visible(self) -> dict[str, int]:
        return {name: copy.visible for name, copy in self._copies.items()}

    def cut_logs(self, cuts: Mapping[str, int], first: Mapping[str, int]) -> None:
        removed = StateChanges(self._filesystem, self.path)
        for name in [name for name in self._copies if name not in cuts]:
            self._remove_log(name)
            removed.note_removed_log(directory_of(name))
        removed.carry_out()
        new = [name for name in cuts if name not in self._copies]
        for name, copy in self._copies.items():
            end = cuts[name]
            if first.get(name, 0) > min(end, copy.end):
                copy.empty()
            else:
                copy.cut(end)
                copy.sync()
        self._make_logs(new)

    def start_from_nothing(self) -> None:
        # The new incarnation comes first: the old one may be in the in-sync set, and must not lead an empty store.
        self._take_incarnation()
        self.close()
        filesystem = self._filesystem
        for name in filesystem.names(self.path):
            if name != "replication":
                self._remove_any(os.path.join(self.path, name))
        if self._read(EPOCHS_PATH) is not None:
            filesystem.remove(self._absolute(EPOCHS_PATH))
        filesystem.sync_directory(self._absolute("replication"))
        filesystem.sync_directory(self.path)

    def _remove_any(self, path: str) -> None:
        try:
            self._filesystem.remove(path)
        except (IsADirectoryError, PermissionError, FileNotFoundError):
            remove_tree(self._filesystem, path)

    def compare_state(self, digests: Mapping[str, bytes]) -> Differences:
        mine = {path: digest_of(content) for path, content in self._state()}
        different = [path for path, digest in digests.items() if mine.get(path) != digest]
        return Differences(different, sorted(mine.keys() - digests.keys()))

    def write_state(self, contents: Mapping[str, bytes | None]) -> None:
        changes = StateChanges(self._filesystem, self.path)
        logs = {directory_of(name): name for name in self._copies}
        for path, content in contents.items():
            if kind_of(path) is FileKind.INDEX:
                # A log that only this replica has was removed when the logs were cut.
                if content is not None:
                    self._keep_facts(logs[os.path.dirname(path)], Facts.parse(content))
            elif content is None:
                changes.add(FileGone(path))
            else:
                changes.add(FileContent(path, content))
        changes.carry_out()
        self._durable.clear()

    def apply(self, items: Sequence[Item]) -> None:
        changes = StateChanges(self._filesystem, self.path)
        touched: dict[str, bool] = {}
        try:
            for item in items:
                self._apply(item, changes, touched)
        except BaseException:
            for name in touched:
                self._copies[name].give_up()
            raise
        synced = [self._copies[name] for name, is_synced in touched.items() if is_synced]
        files = [block.file for copy in synced for block in copy.unsynced()]
        for_each(self._filesystem, lambda file: file.sync(), files)
        for name, is_synced in touched.items():
            self._copies[name].publish(is_synced=is_synced)
        for name in {item.log for item in items if isinstance(item, LogRange) and not item.size}:
            if name in self._copies:
                self._copies[name].sync()
        changes.carry_out()

    def _apply(self, item: Item, changes: StateChanges, touched: dict[str, bool]) -> None:
        if isinstance(item, LogRange):
            copy = self._copies.get(item.log)
            if copy is None:
                raise CorruptRecord(self.path, item.position, f"a range of a log that is not here: {item.log}")
            if not item.size:
                return
            touched[item.log] = is_synced = self._is_durable(item.log, changes)
            copy.write(item.block, item.position, item.first, item.end, item.data, is_synced=is_synced)
        elif isinstance(item, NewLog):
            if item.format != COPY_VERSION:
                raise UnsupportedByVersion("replication", item.format)
            if item.log not in self._copies:
                self._make_log(item.log)
        elif isinstance(item, LogFacts):
            self._keep_facts(item.log, Facts.parse(item.extension))
        elif isinstance(item, RemovedLog):
            touched.pop(item.log, None)
            self._remove_log(item.log)
            changes.note_removed_log(directory_of(item.log))
        elif isinstance(item, FileContent) and item.path == EPOCHS_PATH:
            self.keep_epochs(Epochs.from_json(item.data))
        elif isinstance(item, FileContent | FilePatch | FileGone):
            changes.add(item)
            if item.path.endswith("/topic.json"):
                self._durable.clear()

    def _is_durable(self, log: str, changes: StateChanges) -> bool:
        """Returns whether the records of a log are synced before they are acknowledged.

        Those of a partition are if its topic has durability `commit`. Those of all other logs are always, because
        answers that a client got depend on them.
        """
        parts = directory_of(log).split("/")
        if len(parts) != 3 or parts[0] != "topics" or not parts[2].isdigit():
            return True
        path = f"topics/{parts[1]}/topic.json"
        is_durable = self._durable.get(path)
        if is_durable is None:
            content = changes.content(path)
            is_durable = True
            if content is not None:
                with suppress(CorruptSettings, ValueError):
                    is_durable = TopicSettings.from_bytes(path, content).durability == "commit"
            self._durable[path] = is_durable
        return is_durable

    def _make_logs(self, names: Sequence[str]) -> None:
        """Makes logs that are not here. The files of those in new directories come first, written by threads."""
        filesystem = self._filesystem
        new = [name for name in names if not filesystem.exists(self._absolute(directory_of(name)))]
        for_each(filesystem, lambda name: LogCopy.lay(self._log_path(name), filesystem, _extension(name)), new)
        for name in new:
            self._copies[name] = LogCopy(self._log_path(name), filesystem, self._clock)
        for name in names:
            if name not in self._copies:
                self._make_log(name)

    def _make_log(self, name: str) -> None:
        directory = directory_of(name)
        others = [other for other in self._copies if directory_of(other) == directory]
        for other in others:
            self._remove_log(other)
        self._copies[name] = LogCopy.make(self._log_path(name), self._filesystem, self._clock, _extension(name))

    def _log_path(self, name: str) -> str:
        return self._absolute(directory_of(name))

    def _keep_facts(self, name: str, facts: Facts) -> None:
        copy = self._copies[name]
        copy.keep_facts(facts.first, facts.flag, facts.extension)

    def _remove_log(self, name: str) -> None:
        copy = self._copies.pop(name, None)
        if copy is not None:
            copy.remove()

    def show(self, ends: Mapping[str, int]) -> None:
        for name, end in ends.items():
            copy = self._copies.get(name)
            if copy is not None:
                copy.show(end)

    # --- A master ---

    def lead(
        self, barriers: Barriers, epoch: int, noted: Callable[[], None], failed: Callable[[str], None]
    ) -> ReplicatedFileSystem:
        facts = {directory_of(name): facts_of(copy.index) for name, copy in self._copies.items()}
        for copy in self._copies.values():
            copy.hand_over()
        self._barriers = barriers
        self._leading = ReplicatedFileSystem(
            self._filesystem, self.path, barriers, self._clock, epoch, noted, failed, facts
        )
        return self._leading

    def serve(self) -> None:
        for copy in self._copies.values():
            copy.show(None)

    def ranges(self, ranges: Sequence[tuple[str, int, int]], size_max: int) -> Ranges | None:
        return read_ranges(self._filesystem, self.path, ranges, size_max, self._clock)

    def filled(self, items: Sequence[Item]) -> list[Item] | None:
        barriers = self._barriers
        filled: list[Item] = []
        for item in items:
            if isinstance(item, LogRange) and item.size:
                directory = self._absolute(directory_of(item.log))
                is_there = barriers is None or item.log in barriers.tails
                data = self._maps.data(directory, item) if is_there else None
                if data is None:
                    return None
                item = item._replace(data=data)
            filled.append(item)
        return filled

    def digests(self, after: str) -> StateDigests:
        digests: dict[str, bytes] = {}
        for path, content in self._state(after):
            if len(digests) == DIGESTS_MAX:
                return StateDigests(digests, is_complete=False)
            self._see_served(path, content)
            digests[path] = digest_of(content)
        return StateDigests(digests, is_complete=True)

    def contents(self, paths: Sequence[str], size_max: int) -> dict[str, bytes | None]:
        contents: dict[str, bytes | None] = {}
        size = 0
        for path in paths:
            content = self._content(path)
            size += len(content or b"")
            if contents and size > size_max:
                break
            if content is not None:
                self._see_served(path, content)
            contents[path] = content
        return contents

    def _see_served(self, path: str, content: bytes) -> None:
        if self._leading is not None:
            self._leading.see_served(path, content)

    # --- Both ---

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        named = filter(is_inside, paths) if paths else shipped_paths(self._filesystem, self.path, after)
        rows: list[FileRow] = []
        for path in named:
            if len(rows) == ROWS_MAX:
                return FileRows(rows, is_complete=False)
            if kind_of(path) is FileKind.INDEX:
                row = log_row(self._filesystem, self._absolute(os.path.dirname(path)), path)
            else:
                row = state_row(path, self._read(path))
            if row is not None:
                rows.append(row)
        return FileRows(rows, is_complete=True)

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        if not is_inside(log + "/index"):
            return None
        directory = self._absolute(log)
        return records_digest(self._filesystem, directory, self._clock, start, end, size_max, is_checked=is_checked)

    def close(self) -> None:
        if self._leading is None:
            for copy in self._copies.values():
                copy.close()
        self._copies.clear()
        self._maps.clear()

    # --- Files ---

    def _absolute(self, path: str) -> str:
        return os.path.join(self.path, *path.split("/"))

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.path).replace(os.sep, "/")

    def _open(self, path: str) -> File:
        return self._filesystem.open(path, writable=True)

    def _read(self, path: str) -> bytes | None:
        try:
            file = self._filesystem.open(self._absolute(path), writable=False)
        except FileNotFoundError:
            return None
        content = file.read(0, file.size())
        file.close()
        return content

    def _content(self, path: str) -> bytes | None:
        """Returns the content of a state file, or the facts of a log; None if it is gone."""
        if kind_of(path) is not FileKind.INDEX:
            return self._read(path)
        facts = self._facts_in(os.path.dirname(path))
        return None if facts is None else facts.to_bytes()

    def _facts_in(self, directory: str) -> Facts | None:
        index = read_index(self._filesystem, self._absolute(directory))
        return None if index is None else facts_of(index)

    def _state(self, after: str = "") -> Iterator[tuple[str, bytes]]:
        """Yields each path after `after`, in order, with the content of the state file or the facts of the log."""
        for path in shipped_paths(self._filesystem, self.path, after):
            content = self._content(path)
            if content is not None:
                yield path, content

    def _walk(self) -> Iterator[tuple[str, list[str]]]:
        """Yields each directory that may hold files to ship, with the names in it."""
        waiting = [self.path]
        while waiting:
            directory = waiting.pop()
            try:
                names = self._filesystem.names(directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
            yield directory, names
            for name in names:
                path = os.path.join(directory, name)
                if not is_local_directory(self._relative(path)) and self._is_directory(path):
                    waiting.append(path)

    def _is_directory(self, path: str) -> bool:
        try:
            self._filesystem.names(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def _extension(name: str) -> dict[str, str]:
    """Returns the extension with which the log of this name begins."""
    return {"creator": "warren", CREATED_KEY: created_of(name)}
