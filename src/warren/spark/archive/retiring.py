"""Retire what is archived and verified, and let retention go no further than that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import ARCHIVE_GROUP
from warren.queue import positions
from warren.queue.group_settings import open_settings
from warren.queue.topic import Topic
from warren.spark.archive.verification import Verification
from warren.spark.catalog import Catalog
from warren.storage import Log
from warren.transaction.store import Store


class Retired(NamedTuple):
    """What became of one partition: its log began with `was_first`, and now with `first`.

    `held_by` is the group that still needs what could go otherwise; empty where there is none.
    """

    topic: str
    partition: int
    verified_end: int
    was_first: int
    first: int
    held_by: str


def retire(
    store: str, verification: Verification, *, keep_s: float = 0.0, clock: Clock = SYSTEM_CLOCK
) -> list[Retired]:
    """Remove whole blocks whose messages are archived and verified, older than `keep_s`, and consumed by all groups.

    The group `warren.archive` then stands where the verified archive ends, and holds back the retention of the topic's
    settings as well. Nothing is touched where verification found something wrong before.
    """
    found: list[Retired] = []
    with Store(store, keeps=False, clock=clock) as opened:
        for (topic, topic_id), ends in _by_topic(verification).items():
            # Numbers of a topic that was deleted mean nothing in another of its name.
            if opened.has_topic(topic) and Catalog(store).topic_id(topic) == topic_id:
                found += _retire(opened.existing_topic(topic), ends, keep_s)
    return found


def _by_topic(verification: Verification) -> dict[tuple[str, str], dict[int, int]]:
    ends: dict[tuple[str, str], dict[int, int]] = {}
    for found in verification.partitions:
        ends.setdefault((found.topic, found.topic_id), {})[found.partition] = found.verified_end
    return ends


def _retire(topic: Topic, ends: dict[int, int], keep_s: float) -> list[Retired]:
    settings = {"mode": "stream"}
    open_settings(topic.filesystem, topic.directory, ARCHIVE_GROUP, settings, topic.store.lock)
    positions.begin(topic, ARCHIVE_GROUP, "start")
    found = []
    for partition, end in sorted(ends.items()):
        log = topic.partition(partition)
        positions.store_position(log, ARCHIVE_GROUP, max(end, log.first))
        before, held_by = _allowed(log, end, log.readers())
        if keep_s:
            before = min(before, log.find_time(topic.clock.now_ns() // 1000 - int(keep_s * 1_000_000)))
        was_first = log.first
        first = log.retire(before=before) if before > was_first else was_first
        found.append(Retired(str(topic.name), partition, end, was_first, first, held_by))
    return found


def _allowed(log: Log, end: int, readers: Sequence[str]) -> tuple[int, str]:
    """The number before which nobody needs anything, and whose position that is; no name where it is the archive's."""
    places = {name: positions.stored_position(log, name) for name in readers if name != ARCHIVE_GROUP}
    slowest = min(places, key=places.__getitem__, default=None)
    if slowest is None or places[slowest] >= end:
        return end, ""
    return places[slowest], slowest
