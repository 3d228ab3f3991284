"""A process that puts messages and archives them, repeatedly, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark.archives import archived
from warren.queue.store import Store


def main(place: str) -> None:
    with Store(f"{place}/s", keeps=False) as store:
        topic = store.topic("orders", partitions=2, durability="os")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            topic.put_many([b"x" * 50] * 500)
            archived(Path(place) / "s", Path(place) / "a", "orders")


if __name__ == "__main__":
    main(sys.argv[1])
