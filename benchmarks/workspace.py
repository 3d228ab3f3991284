"""The files of a run, its scale, and the logs and tables that several measurements share."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measure import Row
from warren.storage import Log

BODY_SIZE: Final = 100
BATCH: Final = 1_000
SEED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of each thing a run does."""

    rounds: int = 3
    rounds_synced: int = 10
    """Measurements that wait for the disk get more and shorter turns: a sync takes 0.1 ms at one moment and 4 ms at
    another.
    """
    appends: int
    batched: int
    reads: int
    rows_inserted: int
    messages_many: int
    messages_few: int = 10_000
    lookups: int
    opens: int
    block_size: int
    commits: int
    commits_each: int
    threads: int = 64
    puts_synced: int
    puts_unsynced: int
    puts_os: int
    takes: int
    gets_unsynced: int
    gets_os: int
    delayed: int
    parked: int
    wakes: int
    memory_bytes: int
    rows: int
    micro_batches: int


FULL: Final = Scale(
    appends=300_000,
    batched=1_000_000,
    reads=1_000_000,
    rows_inserted=300_000,
    messages_many=10_000_000,
    lookups=50_000,
    opens=50,
    block_size=64 << 20,
    commits=100,
    commits_each=50,
    puts_synced=100,
    puts_unsynced=5_000,
    puts_os=50_000,
    takes=200_000,
    gets_unsynced=1_000,
    gets_os=20_000,
    delayed=200,
    parked=10_000_000,
    wakes=500,
    memory_bytes=10_000_000_000,
    rows=4_000_000,
    micro_batches=20,
)

QUICK: Final = Scale(
    appends=50_000,
    batched=200_000,
    reads=200_000,
    rows_inserted=100_000,
    messages_many=200_000,
    lookups=5_000,
    opens=20,
    block_size=4 << 20,
    commits=30,
    commits_each=20,
    puts_synced=30,
    puts_unsynced=500,
    puts_os=10_000,
    takes=50_000,
    gets_unsynced=300,
    gets_os=5_000,
    delayed=20,
    parked=200_000,
    wakes=100,
    memory_bytes=1_000_000_000,
    rows=200_000,
    micro_batches=3,
)


class Workspace:
    """A directory that is removed when the run ends. What is requested twice is made once.

    `runs` says how often something is repeated, if the command line says it.
    """

    def __init__(self, directory: Path, scale: Scale, step: Callable[[str], None], runs: int | None = None) -> None:
        self.directory, self.scale, self.step, self.runs = directory, scale, step, runs
        self.bodies = make_bodies(BATCH)

    def fresh(self, name: str) -> Path:
        """Returns a path at which nothing exists."""
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        return path

    def single_log(self, count: int) -> Path:
        """A closed log of `count` messages, each in a record of its own."""
        return self._made(f"singles-{count}", lambda path: self._append_singles(path, count))

    def columns_log(self, count: int) -> Path:
        """A closed log of `count` messages in batches of 1,000."""
        return self._made(f"columns-{count}", lambda path: append_batches(path, self.bodies, count))

    def table(self, count: int) -> Path:
        """An SQLite database with a table `t` of `count` rows, ids from 1 on."""
        return self._made(f"table-{count}.db", lambda path: self._insert(path, count))

    def _made(self, name: str, make: Callable[[Path], None]) -> Path:
        path = self.directory / name
        if not path.exists():
            self.step(f"making {name}")
            make(path)
            # Writes that are still on their way to the disk would be charged to the next measurement.
            os.sync()
        return path

    def _append_singles(self, path: Path, count: int) -> None:
        with Log.open(path, durability="os", exclusive=True) as log:
            for number in range(count):
                log.append(self.bodies[number % BATCH])

    def _insert(self, path: Path, count: int) -> None:
        with open_table(path) as connection:
            for _ in range(0, count, BATCH):
                insert(connection, self.bodies)
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()


class Contest(NamedTuple):
    """Rows that are measured together, under the name that `--only` takes."""

    name: str
    run: Callable[[Workspace], Sequence[Row]]


def count_text(count: int) -> str:
    """A round number as people say it."""
    return f"{count // 1_000_000} million" if count >= 1_000_000 else f"{count // 1_000} thousand"


def make_bodies(count: int) -> list[bytes]:
    """Bodies that differ, of 100 bytes, none of which is zero."""
    draw = random.Random(SEED)
    return [bytes(draw.choices(range(1, 256), k=BODY_SIZE)) for _ in range(count)]


def append_batches(path: Path, bodies: Sequence[bytes], count: int) -> None:
    """A log of `count` messages in batches, closed."""
    with Log.open(path, durability="os", exclusive=True) as log:
        for _ in range(0, count, len(bodies)):
            log.append_many(bodies)


def open_table(path: Path) -> sqlite3.Connection:
    """A database in WAL mode with synchronous=NORMAL, and the table `t` of id, timestamp and body."""
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=normal")
    connection.execute("create table if not exists t (id integer primary key, timestamp integer, body blob)")
    return connection


def insert(connection: sqlite3.Connection, bodies: Sequence[bytes]) -> None:
    """One batch, in one transaction."""
    rows: Iterator[tuple[int, bytes]] = zip(repeat(1_700_000_000_000_000), bodies)
    with connection:
        connection.executemany("insert into t (timestamp, body) values (?, ?)", rows)
