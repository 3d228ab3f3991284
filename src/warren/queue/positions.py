"""Where a stream group stands in each partition: the reader of its name, in every partition's log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from warren.errors import BadInput, CorruptRecord, NoSuchGroup
from warren.queue.group_settings import group_names
from warren.storage import START, Log, paths
from warren.storage.reader import Place, new_reader_bytes, write_reader

if TYPE_CHECKING:
    from warren.queue.topic import Topic

Where = int | float | datetime | Place
"""A number, a time (seconds since the epoch as float, or a datetime), START or END."""
LOOKS_MAX: Final = 10


def begin(topic: Topic, group: str, start: str | int) -> None:
    """Give the group a position in every partition in which it has none. `start` is that of its settings.

    A partition that was added when the group had begun is read from its first message on, so that none is missed.
    NoSuchGroup, and nothing is made, where somebody deleted the group at this moment.
    """
    logs = topic.logs
    if all(_is_there(topic, log, group) for log in logs):
        return
    with topic.store.lock:
        if group not in group_names(topic.filesystem, topic.directory):
            raise NoSuchGroup(topic.name, group)
        # Partition 0 comes last: it tells, also after a crash, whether the group has begun in all that were there.
        if start == "end" and _is_there(topic, logs[0], group):
            start = "start"
        for log in reversed(logs):
            if not _is_there(topic, log, group):
                data = new_reader_bytes(log.version, log.standing(_start_number(log, start)))
                write_reader(topic.filesystem, paths.reader_path(log.path, group), data)


def _is_there(topic: Topic, log: Log, group: str) -> bool:
    return topic.filesystem.exists(paths.reader_path(log.path, group))


def _start_number(log: Log, start: str | int) -> int:
    if isinstance(start, int):
        return log.find_time(start)
    return log.first if start == "start" else log.end


def number_of(log: Log, where: Where) -> int:
    """The number of the message that `where` means; the end of the log where it lies behind."""
    if isinstance(where, Place):
        return log.first if where is START else log.end
    if isinstance(where, bool) or not isinstance(where, int | float | datetime):
        raise BadInput(f"{where!r}: expected a number, a time, START or END")
    if isinstance(where, int):
        if where < 0:
            raise BadInput(f"number {where}: expected 0 or more")
        return min(where, log.end)
    return log.find_time(where)


def stored_position(log: Log, group: str) -> int:
    """What the group has committed, whoever owns the partition. It has begun in it."""
    for _ in range(LOOKS_MAX):
        try:
            return log.reader(group).position
        except CorruptRecord:
            # Whoever owns the partition may be storing a position at this moment. What is damaged stays so.
            continue
    return log.reader(group).position


def store_position(log: Log, group: str, number: int) -> None:
    """The group goes on from `number`, as durable as the log says. For its owner or the process that finishes its work.

    A number behind the end of the log is kept as it is: the group waits until there is such a message.
    """
    reader = log.reader(group)
    if number > log.end:
        reader.commit_beyond(number)
        return
    reader.seek(number)
    reader.commit()


def store_positions(topic: Topic, group: str, positions: Mapping[int, int]) -> None:
    """`store_position` in each of the partitions; for a transaction that somebody committed who is gone."""
    for partition, number in positions.items():
        store_position(topic.partition(partition), group, number)
