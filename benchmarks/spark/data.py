"""The stores of the measurements: four million messages of thirty days, one batch in a hundred with a different tag."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import warren
from benchmarks.workspace import BODY_SIZE, SEED, Workspace, make_bodies
from warren.clock import SystemClock
from warren.transaction.store import Store

TOPIC: Final = "orders"
PARTITIONS: Final = 4
BATCH: Final = 10_000
LARGE_BATCH: Final = 32_000
"""How many rows the sink of Spark puts together, of 100 bytes each: 4 MB."""
KEY_COUNT: Final = 1_000
TAGS: Final = ("eu.de", "eu.fr", "us.ny", "us.ca", "asia.jp")
RARE_TAG: Final = "rare"
RARE_SHARE: Final = 100
"""One batch in so many has the rare tag."""
DAYS: Final = 30
FIRST_DAY_S: Final = 1_790_000_000 // 86_400 * 86_400


class PacedClock(SystemClock):
    """A clock that stands still, so that messages of thirty days are written in a moment."""

    def __init__(self) -> None:
        self.now_s = float(FIRST_DAY_S)

    def now_ns(self) -> int:
        return int(self.now_s * 1e9)


def orders_store(workspace: Workspace, days: int = DAYS, batch: int = BATCH) -> Path:
    """A store of `rows` messages of `days` days, each with a key, those of a batch with a tag in common."""
    path = workspace.directory / f"store-{days}-{batch}"
    if not path.exists():
        workspace.step("writing the store")
        rows, clock = workspace.scale.rows, PacedClock()
        draw = random.Random(SEED)
        bodies, keys = make_bodies(batch), [b"customer-%d" % draw.randrange(KEY_COUNT) for _ in range(batch)]
        with Store(path, defaults={"durability": "os"}, keeps=False, clock=clock) as store:
            topic = store.topic(TOPIC, partitions=PARTITIONS)
            for place, start in enumerate(range(0, rows, batch)):
                clock.now_s, count = FIRST_DAY_S + days * 86_400 * start / rows, min(batch, rows - start)
                is_rare = place // PARTITIONS % RARE_SHARE == RARE_SHARE // 2
                tag = RARE_TAG if is_rare else TAGS[place % len(TAGS)]
                log = topic.partition(place % PARTITIONS)
                log.append_many(bodies[:count], keys=keys[:count], tags=[tag] * count)
        os.sync()
    return path


@contextmanager
def small_store(path: Path) -> Iterator[Store]:
    """An empty store for messages one by one."""
    with warren.open(path, durability="os", keeps=False) as store:
        store.topic(TOPIC)
        yield store


def value_size() -> int:
    return BODY_SIZE
