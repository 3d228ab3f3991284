"""One file or directory of a simulated disk: the view of programs, the content of the platter, and the rest after a
cut.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

PAGE_SIZE: Final = 4096
SECTOR_SIZE: Final = 512
WORD_SIZE: Final = 8


class LengthChange(NamedTuple):
    """A truncate or preallocate that no sync has covered yet."""

    length: int


class PageWrite(NamedTuple):
    """A page that reached the platter while an earlier length had not."""

    page: int
    content: bytes


class NameChange(NamedTuple):
    """A name made (`inode`), removed (None), or replaced by `source`, that no directory sync has covered yet."""

    name: str
    inode: int | None
    source: str | None = None


class Fate(NamedTuple):
    """How one cut treats unsynced data: the chance of each page to be torn, and otherwise to be kept."""

    keep: float
    torn: float


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """One file at one moment: the view of programs, the platter, and the writes in progress."""

    content: bytes
    length: int
    durable: bytes
    durable_length: int
    pending: tuple[LengthChange | PageWrite, ...]
    clean_but_lost: dict[int, bytes]

    def after_power_cut(self, random: Random, fate: Fate) -> bytes:
        """The bytes that are found on the platter."""
        lengths = sum(isinstance(change, LengthChange) for change in self.pending)
        durable, length = _replay(self.durable, self.durable_length, self.pending, random.randint(0, lengths))
        for page in _pages(self.length):
            old, new = _page(durable, page), _page(self.content, page)
            if old != new:
                _set_page(durable, page, _survivor(old, new, random, fate))
        return bytes(durable[:length].ljust(length, b"\0"))

    def half_stored(self, earlier: FrozenFile, random: Random) -> FrozenFile:
        """This file in the middle of the store that changed it from `earlier`: a copy goes upwards,
        by aligned words.
        """
        is_only_stored = (earlier.length, earlier.durable, earlier.pending) == (self.length, self.durable, self.pending)
        if earlier.content == self.content or not is_only_stored:
            return self
        starts = range(0, len(self.content), WORD_SIZE)
        old, new = earlier.content, self.content
        changed = [at for at in starts if old[at : at + WORD_SIZE] != new[at : at + WORD_SIZE]]
        if len(changed) < 2:
            return self
        stop = random.choice(changed)
        return replace(self, content=new[:stop] + old[stop:])


@dataclass(slots=True)
class VolatileFile:
    """A live file. Invariant: after `length` the map holds zeros; on a real disk a mapped write there is a SIGBUS."""

    memory: mmap.mmap
    length: int = 0
    durable: bytearray = field(default_factory=bytearray)
    durable_length: int = 0
    pending: list[LengthChange | PageWrite] = field(default_factory=list)
    clean_but_lost: dict[int, bytes] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.memory[: round_up(self.length)]

    def resize(self, length: int) -> None:
        if length > len(self.memory):
            raise AssertionError(f"the simulated map holds {len(self.memory)} bytes, {length} are needed")
        if length < self.length:
            self.memory[length : self.length] = bytes(self.length - length)
        self.length = length
        self.pending.append(LengthChange(length))

    def dirty_pages(self) -> list[int]:
        """Returns the pages that the kernel would write at a sync.

        A page that a failed sync gave up on is clean until it changes again.
        """
        durable, _ = _replay(self.durable, self.durable_length, self.pending, len(self.pending))
        content = self.content()
        if durable == content:
            return []
        return [
            page
            for page in _pages(self.length)
            if (new := _page(content, page)) != _page(durable, page) and self.clean_but_lost.get(page) != new
        ]

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Stores `data`. Its pages are dirty now, with any earlier content."""
        end = position + len(data)
        if end > self.length:
            self.resize(end)
        self.memory[position:end] = data
        for page in range(position // PAGE_SIZE, round_up(end) // PAGE_SIZE):
            self.clean_but_lost.pop(page, None)

    def write_back(self, page: int) -> None:
        self.pending.append(PageWrite(page, _page(self.content(), page)))

    def sync(self) -> None:
        dirty = self.dirty_pages()
        self.durable, _ = _replay(self.durable, self.durable_length, self.pending, len(self.pending))
        content = self.content()
        for page in dirty:
            _set_page(self.durable, page, _page(content, page))
            self.clean_but_lost.pop(page, None)
        self.durable_length = self.length
        self.pending.clear()

    def fail_sync(self) -> None:
        """As Linux does: the dirty pages count as clean from now on, although they never reached the platter."""
        content = self.content()
        self.clean_but_lost.update({page: _page(content, page) for page in self.dirty_pages()})

    def forget_lost_pages(self) -> None:
        for page in self.clean_but_lost:
            start, end = page * PAGE_SIZE, min((page + 1) * PAGE_SIZE, self.length)
            if start < end:
                self.memory[start:end] = _page(self.durable, page)[: end - start]
        self.clean_but_lost.clear()

    def freeze(self) -> FrozenFile:
        self.check_nothing_behind_length()
        pending = tuple(self.pending)
        durable = bytes(self.durable)
        return FrozenFile(self.content(), self.length, durable, self.durable_length, pending, dict(self.clean_but_lost))

    def check_nothing_behind_length(self) -> None:
        behind = self.memory[self.length : round_up(self.length) + 2 * PAGE_SIZE]
        if behind.count(0) != len(behind):
            raise AssertionError(f"a mapped write behind the file's length of {self.length}: SIGBUS on a real disk")


@dataclass(slots=True)
class VolatileDirectory:
    """The names of one directory. A name leads to the number of a file."""

    current: dict[str, int] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(self, change: NameChange) -> None:
        _apply_name_change(self.current, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.current)
        self.pending.clear()

    def after_power_cut(self, random: Random, fate: Fate) -> dict[str, int]:
        names = dict(self.durable)
        for change in self.pending:
            if random.random() < fate.keep:
                _apply_name_change(names, change)
        return names

    def reachable(self) -> set[int]:
        """The files that this directory leads to, now or after some cut."""
        pending = {change.inode for change in self.pending if change.inode is not None}
        return pending.union(self.current.values(), self.durable.values())

    def copy(self) -> VolatileDirectory:
        return VolatileDirectory(dict(self.current), dict(self.durable), list(self.pending))


def _replay(
    durable: bytes | bytearray, length: int, pending: Iterable[LengthChange | PageWrite], lengths_kept: int
) -> tuple[bytearray, int]:
    """The platter after the page writes, and as many of the length changes as were kept."""
    content = bytearray(durable)
    for change in pending:
        if isinstance(change, PageWrite):
            _set_page(content, change.page, change.content)
        elif lengths_kept:
            lengths_kept -= 1
            length = change.length
            # The page at the cut keeps its old bytes after the new length until it is written itself.
            del content[round_up(length) :]
    return content, length


def _survivor(old: bytes, new: bytes, random: Random, fate: Fate) -> bytes:
    if random.random() < fate.torn:
        sides = (old, new)
        sectors = range(0, PAGE_SIZE, SECTOR_SIZE)
        return b"".join(sides[random.getrandbits(1)][sector : sector + SECTOR_SIZE] for sector in sectors)
    return new if random.random() < fate.keep else old


def _apply_name_change(names: dict[str, int], change: NameChange) -> None:
    if change.inode is None:
        names.pop(change.name, None)
        return
    names[change.name] = change.inode
    if change.source is not None and names.get(change.source) == change.inode:
        del names[change.source]


def _pages(length: int) -> range:
    return range(round_up(length) // PAGE_SIZE)


def _page(content: bytes | bytearray, page: int) -> bytes:
    return bytes(content[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]).ljust(PAGE_SIZE, b"\0")


def _set_page(content: bytearray, page: int, new: bytes) -> None:
    if len(content) < page * PAGE_SIZE:
        content.extend(bytes(page * PAGE_SIZE - len(content)))
    content[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = new


def round_up(length: int) -> int:
    return -(-length // PAGE_SIZE) * PAGE_SIZE
