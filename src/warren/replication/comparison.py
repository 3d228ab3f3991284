"""Comparison: compares what the replicas of a shard have, while they run, and names every difference.

The replicas change while they are compared. So logs are compared up to an end that all have, and a small file of a
slave has to be equal to what the master had at some time of the comparison. That holds for an observer, too, from when
it has all that the master had at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CorruptRecord, WarrenError
from warren.replication.descriptions import describe

SLICE_SIZE_MAX: Final = 1 << 20
"""The bytes of records that a replica digests for one request; at least one record."""
PATHS_MAX: Final = 1000
"""How many files one request names, when they are asked for again."""
QUIET_S: Final = 3.0
"""Files that differ and have not changed for so long differ. A member of the in-sync set is behind for less."""
PATIENCE_S: Final = 15.0
"""How long files that change are asked for again."""
PAUSE_S: Final = 0.002
"""Between two questions for files that change."""
NO_LOG: Final = -1
INDEX: Final = "/index"


class FileRow(NamedTuple):
    """A state file, or a log by the path of its index. `first` and `end` are those that readers of the log see.

    `digest` is that of the content, or of what the index says of the log except where it begins.
    """

    path: str
    digest: bytes
    first: int = NO_LOG
    end: int = NO_LOG


class FileRows(NamedTuple):
    """Files in the order of their paths. `is_complete`: there are no more behind the last one."""

    rows: Sequence[FileRow]
    is_complete: bool


class RecordsDigest(NamedTuple):
    """The digest of the records from the number asked for up to `next`, and the range of the log that readers see.

    It ends at the end of a block at the latest. `next` is the number asked for if there is nothing from it on.
    """

    first: int
    end: int
    next: int
    digest: bytes


class Copy(Protocol):
    """The copy of one replica, as it is asked from far. One thread calls at a time. Raises ConnectionLost."""

    @property
    def replica(self) -> int:
        """The number of the replica."""
        ...

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        """Returns the files behind `after`; or those of `paths` that are there, if any are named."""
        ...

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        """Returns the digest of records of the log in a directory; None if there is no log.

        Raises CorruptRecord if they cannot be read, or do not match their checksums and `is_checked`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What one replica has in another way than the first one. `number` is that of a message, if one is meant."""

    replica: int
    path: str
    what: str
    says: str
    number: int | None = None

    def __str__(self) -> str:
        return f"replica {self.replica}: {self.what} {self.says}"


@dataclass(slots=True, kw_only=True)
class Compared:
    """The result for one replica. `behind`: messages that the first replica shows and this one does not have yet.

    `files_behind`: small files that an observer has not as the first replica, because it has not caught up.
    `lost` says why the replica could not be compared to the end; it is empty if it was.
    """

    replica: int
    logs: int = 0
    messages: int = 0
    files: int = 0
    behind: int = 0
    files_behind: int = 0
    lost: str = ""
    differences: list[Difference] = field(default_factory=list)


Rows = dict[str, FileRow]
Progress = Callable[[int, int], None]
AskReached = Callable[[], Mapping[int, int]]
"""Asks the first replica for the number of its last change, under its own number, and of the last one that each other
replica has acknowledged."""


class Comparison:
    """Compares copies with the first one, which should be the master's. For one thread.

    `catching_up` are replicas that do not have everything yet. Of these only records that they have are compared.
    `observers` may be behind, too. Their files are compared from when they have caught up, as `position` says.
    """

    def __init__(
        self,
        copies: Sequence[Copy],
        catching_up: Iterable[int] = (),
        observers: Iterable[int] = (),
        *,
        position: AskReached = dict,
        progress: Progress = lambda done, total: None,
        clock: Clock = SYSTEM_CLOCK,
        size_max: int = SLICE_SIZE_MAX,
    ) -> None:
        self._first, self._others = copies[0], {each.replica: each for each in copies[1:]}
        self._catching_up, self._observers = frozenset(catching_up), frozenset(observers)
        self._position = position
        self._progress, self._clock, self._size_max = progress, clock, size_max
        self.results = {each.replica: Compared(replica=each.replica) for each in copies}

    def run(self) -> Sequence[Compared]:
        """Returns the result of each replica. Raises ConnectionLost if the first one does not answer."""
        with ThreadPoolExecutor(len(self.results)) as self._threads:
            late = _Late(self._observers, self._first.replica, self._position)
            rows = self._ask(self._living(), all_files)
            first = rows.pop(self._first.replica)
            self._compare_files(first, rows, late)
            self._compare_logs(first, rows)
        return list(self.results.values())

    # --- Asking ---

    def _living(self) -> list[Copy]:
        return [self._first, *self._others.values()]

    def _ask(self, copies: Iterable[Copy], work: Callable[[Copy], Rows]) -> dict[int, Rows]:
        """Returns the answers by replica. A replica that does not answer is left out from now on."""
        futures = [(copy, self._threads.submit(work, copy)) for copy in copies]
        answers = {}
        for copy, answer in futures:
            try:
                answers[copy.replica] = answer.result()
            except WarrenError as error:
                self._lose(copy, error)
        return answers

    def _lose(self, copy: Copy, error: WarrenError) -> None:
        if copy is self._first:
            raise error
        self.results[copy.replica].lost = str(error)
        self._others.pop(copy.replica, None)

    # --- Small files, and which logs there are ---

    def _compare_files(self, first: Rows, rows: dict[int, Rows], late: _Late) -> None:
        """Compares files, and waits for logs of members of the set to reach the end that the first replica had."""
        ends = {path: row.end for path, row in first.items()}
        waiting = {
            replica: _Waiting(first, of_replica, ends)
            for replica, of_replica in rows.items()
            if replica not in self._catching_up
        }
        shown_before: dict[str, set[bytes | None]] = {path: {row.digest} for path, row in first.items()}
        begun_s = changed_s = self._clock.steady_s()
        while paths := sorted({path for each in waiting.values() for path in each.paths}):
            now_s = self._clock.steady_s()
            if now_s > begun_s + PATIENCE_S or now_s > changed_s + QUIET_S:
                break
            self._clock.sleep(PAUSE_S)
            has_changed = late.look(now_s)
            again = self._ask([self._first], lambda copy: named_files(copy, paths))[self._first.replica]
            for path in paths:
                digests = shown_before.setdefault(path, {None})
                row = again.get(path)
                digest = None if row is None else row.digest
                has_changed |= digest not in digests
                digests.add(digest)
                put(first, path, row)
            copies = [self._others[replica] for replica in waiting if replica in self._others]
            for replica, answer in self._ask(copies, lambda copy: named_files(copy, paths)).items():
                has_changed |= waiting[replica].see(answer, shown_before, rows[replica])
            if has_changed:
                changed_s = self._clock.steady_s()
        for replica, left in waiting.items():
            result = self.results[replica]
            result.files = sum(row.first == NO_LOG for row in rows[replica].values())
            if late.has(replica, self._clock.steady_s()):
                result.files_behind = len(left.paths)
            elif not result.lost:
                result.differences += _file_differences(replica, left, self._first.replica, first, rows[replica])

    # --- Records ---

    def _compare_logs(self, first: Rows, rows: dict[int, Rows]) -> None:
        logs = [row for row in first.values() if row.first != NO_LOG]
        total, done = sum(row.end - row.first for row in logs), 0
        self.results[self._first.replica].logs = len(logs)
        self.results[self._first.replica].messages = total
        self.results[self._first.replica].files = len(first) - len(logs)
        for row in logs:
            self._progress(done, total)
            theirs = {}
            for replica, of_replica in rows.items():
                other = of_replica.get(row.path)
                self.results[replica].behind += max(0, row.end - max(row.first, 0 if other is None else other.end))
                if other is not None:
                    theirs[replica] = other
                    self.results[replica].logs += 1
            for count in _OneLog(self, row, theirs).compare():
                self._progress(done + count, total)
            done += row.end - row.first
        self._progress(total, total)

    def digests(
        self, replicas: Iterable[int], path: str, start: int, end: int, size_max: int, *, is_checked: bool = False
    ) -> dict[int, RecordsDigest | CorruptRecord | None]:
        """Returns the digests of several replicas, or why their records cannot be read. Leaves the silent ones out."""
        log = path.removesuffix(INDEX)
        copies = [self._first if each == self._first.replica else self._others.get(each) for each in replicas]
        futures = [
            (copy, self._threads.submit(copy.digest_records, log, start, end, size_max, is_checked=is_checked))
            for copy in copies
            if copy is not None
        ]
        answers: dict[int, RecordsDigest | CorruptRecord | None] = {}
        for copy, answer in futures:
            try:
                answers[copy.replica] = answer.result()
            except CorruptRecord as error:
                answers[copy.replica] = error
            except WarrenError as error:
                self._lose(copy, error)
        return answers

    @property
    def first(self) -> int:
        """The replica that the others are compared with."""
        return self._first.replica

    @property
    def size_max(self) -> int:
        return self._size_max

    def rows_of(self, path: str, replicas: Iterable[int]) -> dict[int, FileRow | None]:
        """Returns the present rows of one log."""
        copies = [self._first if each == self._first.replica else self._others.get(each) for each in replicas]
        answers = self._ask([copy for copy in copies if copy is not None], lambda copy: named_files(copy, [path]))
        return {replica: rows.get(path) for replica, rows in answers.items()}


def all_files(copy: Copy) -> Rows:
    """Returns all files and logs of a copy."""
    rows: Rows = {}
    after, is_complete = "", False
    while not is_complete:
        page, is_complete = copy.list_copy(after, ())
        rows.update((row.path, row) for row in page)
        after = page[-1].path if page else ""
        is_complete |= not page
    return rows


def named_files(copy: Copy, paths: Sequence[str]) -> Rows:
    """Returns those of these files that a copy has."""
    rows: Rows = {}
    for start in range(0, len(paths), PATHS_MAX):
        rows.update((row.path, row) for row in copy.list_copy("", paths[start : start + PATHS_MAX]).rows)
    return rows


def put(rows: Rows, path: str, row: FileRow | None) -> None:
    """Sets or removes one row."""
    if row is None:
        rows.pop(path, None)
    else:
        rows[path] = row


class _Late:
    """The observers that do not have yet what the first replica had at the beginning."""

    def __init__(self, observers: Iterable[int], first: int, position: AskReached) -> None:
        self._position, self._left = position, set(observers)
        self._since: dict[int, float] = {}
        """When an observer had caught up."""
        self._goal = position().get(first, NO_LOG) if self._left else NO_LOG

    def look(self, now_s: float) -> bool:
        """Looks who has caught up. Returns whether one has."""
        if not self._left or self._goal < 0:
            return False
        at = self._position()
        there = {each for each in self._left if at.get(each, NO_LOG) >= self._goal}
        self._left -= there
        self._since |= dict.fromkeys(there, now_s)
        return bool(there)

    def has(self, replica: int, now_s: float) -> bool:
        """Returns whether an observer was behind, or has caught up so late that its files may be older."""
        return replica in self._left or now_s < self._since.get(replica, -QUIET_S) + QUIET_S


class _Waiting:
    """What one replica still has to show: the paths at which it differs, and how its own digests change."""

    def __init__(self, first: Rows, rows: Rows, ends: Mapping[str, int]) -> None:
        self._ends = ends
        self._latest: dict[str, bytes | None] = {}
        self.changing: set[str] = set()
        """Files that changed on this replica while they were asked for."""
        self.paths: set[str] = set()
        for path in first.keys() | rows.keys():
            row = rows.get(path)
            digest, expected = None if row is None else row.digest, first.get(path)
            if digest != (None if expected is None else expected.digest) or not self._is_there(row, path):
                self.paths.add(path)
                self._latest[path] = digest

    def _is_there(self, row: FileRow | None, path: str) -> bool:
        """Returns whether a log has reached the end that the first replica showed at the beginning."""
        return row is None or row.first == NO_LOG or row.end >= self._ends.get(path, NO_LOG)

    def see(self, answer: Mapping[str, FileRow], shown_before: Mapping[str, set[bytes | None]], rows: Rows) -> bool:
        """Takes the present rows. Returns whether something has changed."""
        has_changed = False
        for path in list(self.paths):
            row = answer.get(path)
            digest = None if row is None else row.digest
            before = rows.get(path)
            has_changed |= row != before
            if digest != self._latest[path]:
                self.changing.add(path)
            self._latest[path] = digest
            put(rows, path, row)
            if digest in shown_before[path] and self._is_there(row, path):
                self.paths.discard(path)
        return has_changed


def _file_differences(replica: int, left: _Waiting, other: int, first: Rows, rows: Rows) -> list[Difference]:
    """Returns what is left after waiting. A directory of which nothing is there is one difference, and not many."""
    differences: list[Difference] = []
    gone: set[str] = set()
    for path in sorted(left.paths):
        row, expected = rows.get(path), first.get(path)
        if row is None or expected is None:
            whole = _whole(path, rows if row is None else first)
            if whole not in gone:
                gone.add(whole)
                says = "is missing" if row is None else f"is not at replica {other}"
                differences.append(Difference(replica=replica, path=whole, what=describe(whole), says=says))
        elif row.digest != expected.digest:
            says = f"differs from that of replica {other}"
            if path in left.changing:
                says = "changes too fast to be compared; repeat it with less load"
            differences.append(Difference(replica=replica, path=path, what=describe(path), says=says))
        elif row.first != NO_LOG:
            says = f"ends at {row.end}, and at replica {other} at {expected.end}"
            differences.append(Difference(replica=replica, path=path, what=describe(path), says=says, number=row.end))
    return differences


def _whole(path: str, rows: Rows) -> str:
    """Returns the topic or the group that a path belongs to if nothing of it is in `rows`; otherwise the path."""
    parts = path.split("/")
    for length in (2, 4):
        whole = "/".join(parts[:length])
        is_named = parts[0] == "topics" and (length == 2 or parts[2:3] == ["groups"])
        if is_named and len(parts) > length and not any(each.startswith(whole + "/") for each in rows):
            return whole
    return path


class _OneLog:
    """Compares the records of one log of several replicas, slice by slice."""

    def __init__(self, comparison: Comparison, row: FileRow, theirs: Mapping[int, FileRow]) -> None:
        self._comparison, self._path = comparison, row.path
        self._ranges = {comparison.first: (row.first, row.end)}
        self._ranges |= {replica: (each.first, each.end) for replica, each in theirs.items()}

    def compare(self) -> Iterator[int]:
        """Yields how many messages have been compared, after each slice. Stops at the first difference of a replica."""
        comparison, mine = self._comparison, self._ranges[self._comparison.first]
        number = mine[0]
        while number < self._ranges[comparison.first][1]:
            others = {each: at for each, at in self._ranges.items() if each != comparison.first and at[1] > number}
            if not others:
                return
            # Blocks that one replica has removed already are compared between the others only.
            active = [each for each, (first, _) in others.items() if first <= number]
            borders = [at[1] if each in active else at[0] for each, at in others.items()]
            end = min(self._ranges[comparison.first][1], *borders)
            if not active:
                number = end
                continue
            number = self._slice([comparison.first, *active], number, end)
            yield number - mine[0]

    def _slice(self, replicas: Sequence[int], start: int, end: int) -> int:
        """Compares one slice, and returns the number behind it."""
        comparison = self._comparison
        answers = comparison.digests(replicas, self._path, start, end, comparison.size_max)
        for replica in set(replicas) - answers.keys():
            del self._ranges[replica]
        for replica, answer in answers.items():
            if isinstance(answer, RecordsDigest) and answer.first > start:
                # Retention has removed it since.
                self._ranges[replica] = answer.first, self._ranges[replica][1]
        retired = [self._ranges[each][0] for each in answers if self._ranges[each][0] > start]
        mine = answers[comparison.first]
        if mine is None:
            # The log was removed since.
            self._ranges = {comparison.first: (end, end)}
            return end
        if self._ranges[comparison.first][0] > start:
            return min(end, max(retired))
        different = [
            each for each, answer in answers.items() if self._ranges[each][0] <= start and not _is_equal(answer, mine)
        ]
        for replica in different:
            self._locate(replica, start, end)
            self._ranges.pop(replica, None)
        following = end if isinstance(mine, CorruptRecord) else mine.next
        for replica in self._ranges.keys() & answers.keys() - {comparison.first}:
            if self._ranges[replica][0] <= start:
                comparison.results[replica].messages += following - start
        if isinstance(mine, CorruptRecord) or following <= start:
            self._ranges = {comparison.first: (end, end)}
            return end
        return following

    def _locate(self, replica: int, start: int, end: int) -> None:
        """Finds the first record that differs by halving the slice, and notes it."""
        comparison, first, size = self._comparison, self._comparison.first, self._comparison.size_max
        rows = comparison.rows_of(self._path, (first, replica))
        mine, theirs = rows.get(first), rows.get(replica)
        if mine is None or (theirs is not None and mine.digest != theirs.digest):
            # It was removed since, and perhaps another log is there.
            return
        while size > 1:
            size //= 2
            answers = comparison.digests((first, replica), self._path, start, end, size)
            expected, answer = answers.get(first), answers.get(replica)
            while isinstance(expected, RecordsDigest) and _is_equal(answer, expected) and start < expected.next < end:
                start = expected.next
                answers = comparison.digests((first, replica), self._path, start, end, size)
                expected, answer = answers.get(first), answers.get(replica)
        answers = comparison.digests((first, replica), self._path, start, end, 1, is_checked=True)
        result = comparison.results[replica]
        if replica not in answers:
            return
        what, answer, expected = describe(self._path), answers[replica], answers[first]
        if answer is None:
            says = "is missing"
        elif isinstance(answer, CorruptRecord):
            says = f"is damaged at message {start}: {answer}"
        elif isinstance(expected, CorruptRecord):
            says = f"cannot be compared with replica {first}, which is damaged at message {start}: {expected}"
        else:
            says = f"differs from that of replica {first} at message {start}"
        number = None if answer is None else start
        result.differences.append(Difference(replica=replica, path=self._path, what=what, says=says, number=number))


def _is_equal(answer: RecordsDigest | CorruptRecord | None, expected: RecordsDigest | CorruptRecord) -> bool:
    if not isinstance(answer, RecordsDigest) or not isinstance(expected, RecordsDigest):
        return False
    return (answer.next, answer.digest) == (expected.next, expected.digest)
