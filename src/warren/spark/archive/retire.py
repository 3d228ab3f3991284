"""Retires messages that are archived and verified, and keeps retention from removing any that are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warren.clock import SYSTEM_CLOCK, Clock
from warren.queue.state.group_settings import open_settings
from warren.queue.state.retention import ARCHIVE_GROUP
from warren.queue.stream import positions
from warren.queue.topic import Topic
from warren.spark.archive.verification import Verification
from warren.spark.store_access.files import FileCatalog
from warren.storage import Log
from warren.transaction.store import Store


class Retired(NamedTuple):
    """What was retired in one partition: its log began with `was_first`, and now begins with `first`.

    `held_by` is the group that still needs messages that could be retired otherwise; empty if there is none.
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
    """Removes whole blocks whose messages are archived and verified, older than `keep_s`, and consumed by all groups.

    The group `warren.archive` then has its position at the end of the verified archive, so it also holds back the
    retention of the topic's settings. Messages after the first fault of the verification are not removed.
    """
    retired: list[Retired] = []
    with Store(store, keeps=False, clock=clock) as opened:
        for (topic, topic_id), ends in _by_topic(verification).items():
            # The numbers of a deleted topic have no meaning in another topic of the same name.
            if opened.has_topic(topic) and FileCatalog(store).topic_id(topic) == topic_id:
                retired += _retire(opened.existing_topic(topic), ends, keep_s)
    return retired


def _by_topic(verification: Verification) -> dict[tuple[str, str], dict[int, int]]:
    ends: dict[tuple[str, str], dict[int, int]] = {}
    for partition in verification.partitions:
        ends.setdefault((partition.topic, partition.topic_id), {})[partition.partition] = partition.verified_end
    return ends


def _retire(topic: Topic, ends: dict[int, int], keep_s: float) -> list[Retired]:
    settings = {"mode": "stream"}
    open_settings(topic.filesystem, topic.directory, ARCHIVE_GROUP, settings, topic.store.lock)
    positions.begin(topic, ARCHIVE_GROUP, "start")
    retired = []
    for partition, end in sorted(ends.items()):
        log = topic.partition(partition)
        positions.store_position(log, ARCHIVE_GROUP, max(end, log.first))
        before, held_by = _allowed(log, end, log.readers())
        if keep_s:
            before = min(before, log.find_time(topic.clock.now_ns() // 1000 - int(keep_s * 1_000_000)))
        was_first = log.first
        first = log.retire(before=before) if before > was_first else was_first
        retired.append(Retired(str(topic.name), partition, end, was_first, first, held_by))
    return retired


def _allowed(log: Log, end: int, readers: Sequence[str]) -> tuple[int, str]:
    """Returns the number below which no group needs messages, and the group that holds it back; "" for the archive."""
    places = {name: positions.stored_position(log, name) for name in readers if name != ARCHIVE_GROUP}
    slowest = min(places, key=places.__getitem__, default=None)
    if slowest is None or places[slowest] >= end:
        return end, ""
    return places[slowest], slowest
