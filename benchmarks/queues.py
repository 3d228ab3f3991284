"""The cost of topics, groups, queues, delays and transactions on top of the log, and compared with other queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import warren
from benchmarks.measure import Contestant, Figure, Row, at_least, at_most, rates, times
from benchmarks.reads import read_all
from benchmarks.rivals import installed
from benchmarks.workspace import BATCH, Contest, Workspace
from warren.storage import Log
from warren.transaction.store import Store

PARTITIONS: Final = 4
TAKEN: Final = 100
IN_TRANSACTION: Final = 100
DELAY_S: Final = 3600.0


@contextmanager
def fresh_store(workspace: Workspace, durability: str) -> Iterator[Store]:
    with warren.open(workspace.fresh("store"), durability=durability) as store:
        yield store


def put_many(workspace: Workspace) -> list[Row]:
    batches, bodies = workspace.scale.batched // BATCH, workspace.bodies

    def to_log() -> float:
        with Log.open(workspace.fresh("log"), durability="os") as log:
            # The first message of a log creates its files, which costs syncs: that is measured in neither case.
            log.append(b"first")
            return repeated(batches, lambda: log.append_many(bodies))

    def to_topic() -> float:
        with fresh_store(workspace, "os") as store:
            topic = store.topic("orders", partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                topic.put(b"first", partition=partition)
            return repeated(batches, lambda: topic.put_many(bodies))

    contestants = [
        Contestant("Log.append_many", workspace.scale.batched, to_log),
        Contestant("put_many", workspace.scale.batched, to_topic),
    ]
    log, topic = rates(contestants, workspace.scale.rounds)
    what = f"topic.put_many by 1,000, {PARTITIONS} partitions, os"
    return [Row(name="queues.put_many", what=what, baseline=log, measured=topic, bar=at_least(0.8))]


def stream(workspace: Workspace) -> list[Row]:
    count = workspace.scale.reads

    def read_and_commit() -> float:
        with filled_store(workspace, count) as store, store.topic("orders").group("readers") as group:
            read, commit, remaining = group.read, group.commit, count
            start = perf_counter()
            while remaining:
                remaining -= len(read(limit=BATCH, wait=1.0))
                commit()
            return perf_counter() - start

    contestants = [
        Contestant("Log.read", count, lambda: read_all(workspace.columns_log(count), count)),
        Contestant("group.read", count, read_and_commit),
    ]
    log, group = rates(contestants, workspace.scale.rounds)
    what = "stream group: read(1000) + commit, os"
    return [Row(name="queues.stream", what=what, baseline=log, measured=group, bar=at_least(0.8))]


def take(workspace: Workspace) -> list[Row]:
    persistqueue, scale = installed("persistqueue"), workspace.scale

    def take_and_ack() -> float:
        with (
            filled_store(workspace, scale.takes) as store,
            store.topic("orders").group("workers", mode="queue") as group,
        ):
            remaining = scale.takes
            start = perf_counter()
            while remaining:
                messages = group.take(limit=TAKEN, wait=1.0)
                group.ack_many(messages)
                remaining -= len(messages)
            return perf_counter() - start

    def get_all() -> float:
        queue = persistqueue.SQLiteQueue(str(workspace.fresh("rival")), auto_commit=True)
        for _ in range(scale.puts_synced):
            queue.put(workspace.bodies[0])
        seconds = repeated(scale.puts_synced, queue.get)
        queue.close()
        return seconds

    columns_log = workspace.columns_log(scale.takes)
    contestants = [
        Contestant("Log.read", scale.takes, lambda: read_all(columns_log, scale.takes)),
        Contestant("take(100) + ack_many", scale.takes, take_and_ack),
        Contestant("persist-queue SQLiteQueue.get", scale.puts_synced, get_all),
    ]
    log, group, rival = rates(contestants, scale.rounds)
    what = "queue group: take(100) + ack_many, os"
    return [
        Row(name="queues.take.log", what=what, baseline=log, measured=group, bar=at_least(0.1)),
        Row(name="queues.take.rival", what=what, baseline=rival, measured=group, bar=at_least(20)),
    ]


Methods = tuple[Callable[[Any], Any], Callable[[], Any], Callable[[], Any]]
"""How to put, get and close."""


class Pair:
    """A queue of a library: how to put a message and how to get it."""

    def __init__(self, name: str, make: Callable[[Path], Methods]) -> None:
        self.name, self._make = name, make

    def contestants(self, workspace: Workspace, count: int) -> list[Contestant]:
        """Putting `count` items, and getting as many, each timed by itself."""
        body = workspace.bodies[0]

        def put_all() -> float:
            put, _, close = self._make(workspace.fresh("rival"))
            seconds = repeated(count, lambda: put(body))
            close()
            return seconds

        def get_all() -> float:
            put, get, close = self._make(workspace.fresh("rival"))
            for _ in range(count):
                put(body)
            seconds = repeated(count, get)
            close()
            return seconds

        return [
            Contestant(f"{self.name} put", count, put_all),
            Contestant(f"{self.name} get", count, get_all),
        ]


def durable(workspace: Workspace) -> list[Row]:
    persistqueue, scale = installed("persistqueue"), workspace.scale

    def sqlite(path: Path) -> Methods:
        queue = persistqueue.SQLiteQueue(str(path), auto_commit=True)
        return queue.put, queue.get, queue.close

    ours = Pair("store.queue", lambda path: _queue(path, "commit"))
    rival = Pair("persist-queue SQLiteQueue", sqlite)
    contestants = [*ours.contestants(workspace, scale.puts_synced), *rival.contestants(workspace, scale.puts_synced)]
    put, get, rival_put, rival_get = rates(contestants, scale.rounds_synced)
    return [
        Row(
            name=f"queues.durable.commit.{word}",
            what=f"store.queue {word}, commit",
            baseline=b,
            measured=m,
            bar=at_least(1),
        )
        for word, b, m in (("put", rival_put, put), ("get", rival_get, get))
    ]


def durable_unsynced(workspace: Workspace) -> list[Row]:
    litequeue, diskcache, scale = installed("litequeue"), installed("diskcache"), workspace.scale

    def lite(path: Path) -> Methods:
        path.mkdir()
        queue = litequeue.LiteQueue(path / "queue.db")
        return queue.put, queue.pop, queue.close

    def deque(path: Path) -> Methods:
        rival = diskcache.Deque(directory=str(path))
        return rival.append, rival.popleft, rival.cache.close

    contestants = [
        *Pair("store.queue", lambda path: _queue(path, "os")).contestants(workspace, scale.gets_os),
        *Pair("litequeue", lite).contestants(workspace, scale.gets_unsynced),
        *Pair("diskcache.Deque", deque).contestants(workspace, scale.gets_unsynced),
    ]
    put, get, *others = rates(contestants, scale.rounds)
    return [
        Row(
            name=f"queues.durable.os.{word}",
            what=f"store.queue {word}, os; the faster of litequeue and diskcache.Deque",
            baseline=max(rivals, key=_value),
            measured=measured,
            bar=at_least(5),
        )
        for word, measured, rivals in (("put", put, others[::2]), ("get", get, others[1::2]))
    ]


def _value(figure: Figure) -> float:
    return figure.value


def _queue(path: Path, durability: str) -> Methods:
    store = warren.open(path, durability=durability)
    queue = store.queue("jobs", codec="bytes")
    return queue.put, queue.get, store.close


def delay(workspace: Workspace) -> list[Row]:
    count, body = workspace.scale.puts_os, workspace.bodies[0]

    def putting(**options: Any) -> float:
        with fresh_store(workspace, "os") as store:
            put = store.topic("orders").put
            return repeated(count, lambda: put(body, **options))

    contestants = [
        Contestant("put", count, putting),
        Contestant("put with a delay", count, lambda: putting(delay=DELAY_S)),
    ]
    plain, delayed = rates(contestants, workspace.scale.rounds)
    return [Row(name="queues.delay", what="put with a delay, os", baseline=plain, measured=delayed, bar=at_least(0.3))]


def transaction(workspace: Workspace) -> list[Row]:
    count, bodies = workspace.scale.commits, workspace.bodies[:IN_TRANSACTION]

    def together() -> float:
        with fresh_store(workspace, "commit") as store:
            topic = store.topic("orders")
            topic.put_many(bodies)
            return repeated(count, lambda: topic.put_many(bodies))

    def in_transaction(*names: str) -> float:
        with fresh_store(workspace, "commit") as store:
            for name in names:
                store.topic(name).put(b"first")

            def run() -> None:
                with store.transaction() as tx:
                    for row, body in enumerate(bodies):
                        tx.put(names[row % len(names)], body)

            run()
            return repeated(count, run)

    contestants = [
        Contestant("put_many of 100", count, together),
        Contestant("transaction, one topic", count, lambda: in_transaction("orders")),
        Contestant("transaction, two topics", count, lambda: in_transaction("orders", "audit")),
    ]
    plain, one, two = times(contestants, workspace.scale.rounds_synced)
    what = "time of a transaction of 100 puts, commit"
    return [
        Row(name="queues.transaction.one", what=f"{what}, to one topic", baseline=plain, measured=one, bar=at_most(2)),
        Row(name="queues.transaction.two", what=f"{what}, to two topics", baseline=plain, measured=two),
    ]


def repeated(count: int, call: Callable[[], object]) -> float:
    """Returns the seconds of `count` calls."""
    start = perf_counter()
    for _ in range(count):
        call()
    return perf_counter() - start


@contextmanager
def filled_store(workspace: Workspace, count: int) -> Iterator[Store]:
    """A store whose topic `orders` has `count` messages in batches of 1,000."""
    with fresh_store(workspace, "os") as store:
        topic = store.topic("orders")
        for _ in range(0, count, BATCH):
            topic.put_many(workspace.bodies)
        yield store


CONTESTS: Final[Sequence[Contest]] = (
    Contest("queues.put_many", put_many),
    Contest("queues.stream", stream),
    Contest("queues.take", take),
    Contest("queues.durable.commit", durable),
    Contest("queues.durable.os", durable_unsynced),
    Contest("queues.delay", delay),
    Contest("queues.transaction", transaction),
)
