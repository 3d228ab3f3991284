"""The positions of a stream group: in every partition's log, a reader with the name of the group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from warren.api.values import Where
from warren.errors import BadInput, CorruptRecord, NoSuchGroup
from warren.message import START, Edge
from warren.queue.state.group_settings import group_names, start_number
from warren.queue.state.topic_view import TopicView
from warren.storage import Log
from warren.storage.disk import paths
from warren.storage.read.reader import new_reader_bytes, write_reader

LOOKS_MAX: Final = 10


def begin(topic: TopicView, group: str, start: str | int) -> None:
    """Gives the group a position in every partition in which it has none. `start` comes from its settings.

    A partition that was added after the group began is read from its first message on, so that none is missed. If
    another process deletes the group at this moment, raises NoSuchGroup and stores nothing.
    """
    logs = topic.logs
    if all(_is_there(topic, log, group) for log in logs):
        return
    with topic.store.lock:
        if group not in group_names(topic.filesystem, topic.directory):
            raise NoSuchGroup(topic.name, group)
        # Partition 0 comes last. Its reader proves, also after a crash, that the group has begun in all partitions that
        # existed then.
        if start == "end" and _is_there(topic, logs[0], group):
            start = "start"
        for log in reversed(logs):
            if not _is_there(topic, log, group):
                data = new_reader_bytes(log.version, log.standing(start_number(log, start)))
                write_reader(topic.filesystem, paths.reader_path(log.path, group), data)


def _is_there(topic: TopicView, log: Log, group: str) -> bool:
    return topic.filesystem.exists(paths.reader_path(log.path, group))


def number_of(log: Log, where: Where) -> int:
    """Returns the number of the message that `where` refers to, and at most the end of the log."""
    if isinstance(where, Edge):
        return log.first if where is START else log.end
    if isinstance(where, bool) or not isinstance(where, int | float | datetime):
        raise BadInput(f"{where!r}: expected a number, a time, START or END")
    if isinstance(where, int):
        if where < 0:
            raise BadInput(f"number {where}: expected 0 or more")
        return min(where, log.end)
    return log.find_time(where)


def stored_position(log: Log, group: str) -> int:
    """Returns the position that the group has committed, in any process. The group must have begun in the partition."""
    for _ in range(LOOKS_MAX):
        try:
            return log.reader(group).position
        except CorruptRecord:
            # The owner of the partition may be storing a position at this moment. Real damage does not go away.
            continue
    return log.reader(group).position


def store_position(log: Log, group: str, number: int) -> None:
    """Makes the group continue at `number`, as durably as the log says.

    Called by the owner, or by the process that finishes its work.

    A number after the end of the log is stored as it is: the group waits until there is such a message.
    """
    reader = log.reader(group)
    if number > log.end:
        reader.commit_beyond(number)
        return
    reader.seek(number)
    reader.commit()


def store_positions(topic: TopicView, group: str, positions: Mapping[int, int]) -> None:
    """Calls `store_position` for each partition, for a transaction that a dead process had committed."""
    for partition, number in positions.items():
        store_position(topic.partition(partition), group, number)
