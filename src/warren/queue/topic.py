"""Topic: partitions with a name and settings. Messages are put, read by place and time, and consumed by groups."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from warren.clock import Clock, Duration, microseconds
from warren.config import BODY_SIZE_MAX
from warren.errors import GONE, BadInput, IsAQueue, NoSuchPartition, NoSuchTopic, SettingsDiffer, TooLarge
from warren.message import NO_CORR_OFFSET, Message, Origin, Place, TopicReceipt
from warren.queue import store_paths
from warren.queue.broadcast import Broadcast
from warren.queue.by_time import Range, last_by_time, merged_by_time
from warren.queue.delay import Delay
from warren.queue.delayed import Delayed, Scheduled
from warren.queue.description import TopicDescription, describe_partition
from warren.queue.group_description import GroupDescription, describe_group, group_settings
from warren.queue.group_settings import GroupSettings, group_names
from warren.queue.groups import GroupOptions, configure_group, delete_group, open_group
from warren.queue.json_file import read_json
from warren.queue.letters import Letter, letters
from warren.queue.message_fields import Columns, Fields
from warren.queue.places import Places
from warren.queue.positions import Where
from warren.queue.put_back import PutBackPart, put_back_parts
from warren.queue.queue_group import QueueGroup
from warren.queue.request import answer, reply_headers, request
from warren.queue.retention import retire
from warren.queue.routing import partition_of, rows_by_partition
from warren.queue.settings import TopicSettings
from warren.queue.stream_group import StreamGroup
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.filesystem import FileSystem
from warren.storage.record import check_bodies

if TYPE_CHECKING:
    from warren.queue.store import Store

NO_PUTS: Final = -1
"""A limit of size that no body keeps, not even an empty one."""


class Topic:
    """One topic of an open store. Any thread may use it, and any number of processes at once.

    Messages of one key keep their order: they go to the same partition, by the hash that `routing` describes.
    """

    def __init__(self, store: Store, name: str, settings: TopicSettings, *, is_queue: bool = False) -> None:
        self.store, self.settings, self.is_queue = store, settings, is_queue
        self.name = Origin(name)
        self.name.answer = functools.partial(answer, self)
        self.directory = store_paths.topic_directory(store.path, name)
        self.delay = Delay(self)
        # Not from 0: programs that put one message and end would all put it to the same partition.
        self._turn = itertools.count(store.clock.now_ns() // 1000)
        self._logs: list[Log] = []
        self._members: weakref.WeakSet[StreamGroup | QueueGroup] = weakref.WeakSet()
        self.take_settings(settings)

    # --- Its partitions ---

    def take_settings(self, settings: TopicSettings) -> None:
        """These are the settings now: logs are opened anew where they concern them."""
        old, self.settings = self.settings, settings
        concerned = ("durability", "block_size", "compression")
        closing = self._logs if any(getattr(old, name) != getattr(settings, name) for name in concerned) else []
        kept = [] if closing else self._logs
        # A new list: other threads always find a whole one, and come to the same when they do this at once.
        self._logs = [*kept, *map(self._open_log, range(len(kept), settings.partitions))]
        self._partition_count = settings.partitions
        # No body is small enough for a queue's topic. So the check of the size, which every put makes, refuses the put
        # at no further cost, and only then `check_takes_puts` is asked for the reason.
        takes_none = self.is_queue or self.store.is_read_only
        self.put_size_max = NO_PUTS if takes_none else settings.message_size_max
        if closing:
            with self.delay.standing_still():
                self.delay.close()
                _close(closing)

    def _open_log(self, partition: int) -> Log:
        settings, store = self.settings, self.store
        return Log.open(
            store_paths.partition_directory(self.directory, partition),
            version=settings.version,
            durability=settings.durability,
            block_size=settings.block_size,
            compression=settings.compression,
            topic=self.name,
            partition=partition,
            filesystem=store.filesystem,
            clock=store.clock,
        )

    def see_partitions(self) -> int:
        """How many partitions there are, with those that another process added."""
        path = store_paths.partition_directory(self.directory, self._partition_count)
        if self.filesystem.exists(path):
            path = store_paths.topic_file(self.directory)
            data = read_json(self.filesystem, path)
            if data is not None:
                count = TopicSettings.from_json(path, data).partitions
                self.take_settings(dataclasses.replace(self.settings, partitions=count))
        return self._partition_count

    @property
    def logs(self) -> Sequence[Log]:
        """The log of each partition."""
        self.store.check_open()
        return self._logs

    @property
    def filesystem(self) -> FileSystem:
        return self.store.filesystem

    @property
    def clock(self) -> Clock:
        return self.store.clock

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def partition(self, number: int) -> Log:
        """The log of one partition: `at`, `read`, `backwards`, `find_time`, `scan` and all else."""
        if number not in range(self._partition_count):
            raise NoSuchPartition(self.name, number, self._partition_count)
        return self.logs[number]

    # --- Putting ---

    @overload
    def put(
        self, body: bytes, *, delay: None = None, deliver_at: None = None, **fields: Unpack[Fields]
    ) -> TopicReceipt: ...

    @overload
    def put(self, body: bytes, *, delay: Duration, deliver_at: None = None, **fields: Unpack[Fields]) -> Delayed: ...

    @overload
    def put(
        self, body: bytes, *, delay: None = None, deliver_at: datetime | float | int, **fields: Unpack[Fields]
    ) -> Delayed: ...

    def put(
        self,
        body: bytes,
        *,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
        reply_to: str = "",
        delay: Duration | None = None,
        deliver_at: datetime | float | int | None = None,
    ) -> TopicReceipt | Delayed:
        """Put one message; its receipt, when it is as durable as the topic's settings say.

        With a key it goes to the partition of that key, without one to the partitions in turn, or to `partition`.
        Whoever calls `reply` on the message answers to the topic `reply_to`. With a `delay` in seconds, or a time to
        `deliver_at`, it is parked until then, and put when it is due; what is given back can cancel it.
        """
        if reply_to:
            headers = reply_headers(headers, reply_to)
        if delay is not None or deliver_at is not None:
            self.check_body(body)
            return self.delay.put(
                body,
                self.delay.due_us(delay, deliver_at),
                key=key,
                tag=tag,
                headers=headers,
                id=id,
                corr_offset=corr_offset,
                partition=partition,
            )
        number = self.route(key) if partition is None else partition
        log = self.partition(number)
        self.check_body(body)
        try:
            receipt = log.append(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)
        except GONE as error:
            raise NoSuchTopic(self.name) from error
        return TopicReceipt(self.name, number, receipt.number, receipt.offset, receipt.timestamp, receipt.id)

    def request(
        self,
        body: bytes,
        *,
        timeout: Duration = 30.0,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
    ) -> Message:
        """Put a message, and wait until somebody who consumes it answers with `message.reply`; the answer.

        NoReply after `timeout` seconds. The answers go to the topic `<topic>.replies`.
        """
        return request(self, body, timeout, key, tag, headers)

    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: None = None, deliver_at: None = None, **columns: Unpack[Columns]
    ) -> Sequence[Place]: ...

    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: Duration, deliver_at: None = None, **columns: Unpack[Columns]
    ) -> list[Delayed]: ...

    @overload
    def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        delay: None = None,
        deliver_at: datetime | float | int,
        **columns: Unpack[Columns],
    ) -> list[Delayed]: ...

    def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
        partition: int | None = None,
        delay: Duration | None = None,
        deliver_at: datetime | float | int | None = None,
    ) -> Sequence[Place] | list[Delayed]:
        """Put messages together, with one commit for each partition they go to; the place of each, in order.

        Without keys all go to one partition, the next in turn. `tag` is what all share, `tags` one for each. With a
        `delay` or `deliver_at` all are parked until then; what is given back can cancel each.
        """
        self.check_bodies(bodies)
        if delay is not None or deliver_at is not None:
            batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
            return self.delay.put_many(batch, self.delay.due_us(delay, deliver_at), tag=tag, partition=partition)
        columns: dict[str, Any] = {
            "tags": tags,
            "keys": keys,
            "ids": ids,
            "headers": headers,
            "corr_offsets": corr_offsets,
        }
        try:
            if keys is None or partition is not None or self._partition_count == 1:
                number = self._next() if partition is None else partition
                numbers = self.partition(number).append_many(bodies, tag=tag, **columns)
                return Places(number, numbers)
            return self._put_by_key(bodies, tag, keys, columns)
        except GONE as error:
            raise NoSuchTopic(self.name) from error

    def _put_by_key(
        self, bodies: Sequence[bytes], tag: str, keys: Sequence[bytes | None], columns: Mapping[str, Any]
    ) -> list[Place]:
        if len(keys) != len(bodies):
            raise BadInput(f"keys has {len(keys)} entries for {len(bodies)} bodies")
        places: list[Place] = [Place(-1, -1)] * len(bodies)
        try:
            parts = rows_by_partition(keys, self._partition_count, self._next())
        except TypeError as error:
            raise BadInput("every key is bytes or None") from error
        for number, rows in sorted(parts.items()):
            part: dict[str, Any] = {
                name: None if column is None else [column[row] for row in rows] for name, column in columns.items()
            }
            numbers = self.logs[number].append_many([bodies[row] for row in rows], tag=tag, **part)
            for row, at in zip(rows, numbers, strict=True):
                places[row] = Place(number, at)
        return places

    def check_takes_puts(self) -> None:
        """Raises IsAQueue if only a durable queue puts into the topic, and ReadOnlyStore if the store is read-only."""
        self.store.check_writable()
        if self.is_queue:
            raise IsAQueue(str(self.name))

    def check_body(self, body: bytes) -> None:
        """TooLarge where the topic takes no such body."""
        try:
            size = len(body)
        except TypeError as error:
            raise BadInput(f"a body is bytes, not {type(body).__name__}") from error
        if size > self.put_size_max:
            self.check_takes_puts()
            raise TooLarge("body", size, self.put_size_max)

    def check_bodies(self, bodies: Sequence[bytes]) -> None:
        """TooLarge where the topic takes one of them not. What is too large for any log, the log refuses."""
        if self.put_size_max == BODY_SIZE_MAX:
            return
        self.check_takes_puts()
        try:
            largest = max(map(len, bodies), default=0)
        except TypeError:
            check_bodies(bodies)
            raise
        if largest > self.put_size_max:
            raise TooLarge("body", largest, self.put_size_max)

    def _next(self) -> int:
        return next(self._turn) % self._partition_count

    def route(self, key: bytes | None) -> int:
        """The partition that a message with this key goes to; without a key the next in turn."""
        if self._partition_count == 1:
            return 0
        if key is None:
            return self._next()
        try:
            return partition_of(key, self._partition_count)
        except TypeError as error:
            raise BadInput(f"a key is bytes, not {type(key).__name__}") from error

    # --- What is parked ---

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """What was put with a delay and is not due yet, by due time, the first `limit` of it; read page by page."""
        return self.delay.scheduled(limit)

    def cancel(self, handle_id: str) -> bool:
        """Cancel a delayed message by the id of its handle. True: it will never be delivered; False: too late."""
        self.store.check_writable()
        return self.delay.cancel(handle_id)

    # --- Reading by place and time ---

    def last(self, count: int = 1) -> list[Message]:
        """The last `count` messages of all partitions, by time."""
        return last_by_time(self.logs, count)

    def since(self, when: datetime | float | int, *, tag: str | None = None) -> Iterator[Message]:
        """The messages from `when` on that are there now, by time over all partitions."""
        return self._merged(when, None, tag)

    def between(
        self, start: datetime | float | int, end: datetime | float | int, *, tag: str | None = None
    ) -> Iterator[Message]:
        """The messages from `start` on and before `end`, by time over all partitions."""
        return self._merged(start, end, tag)

    def _merged(
        self, start: datetime | float | int, end: datetime | float | int | None, tag: str | None
    ) -> Iterator[Message]:
        end_us = None if end is None else microseconds(end)
        ranges = [
            Range(log, log.find_time(start), log.end if end_us is None else log.find_time(end_us)) for log in self.logs
        ]
        return merged_by_time(ranges, tag)

    # --- Consuming ---

    @overload
    def group(self, name: str, *, mode: Literal["stream"] = ..., **options: Unpack[GroupOptions]) -> StreamGroup: ...

    @overload
    def group(self, name: str, *, mode: Literal["queue"], **options: Unpack[GroupOptions]) -> QueueGroup: ...

    def group(
        self, name: str, *, mode: Literal["stream", "queue"] = "stream", **options: Unpack[GroupOptions]
    ) -> StreamGroup | QueueGroup:
        """A member of the group `name`, which is made where there is none. Members share the messages of a group.

        In a stream group each owns partitions, and reads them in order; in a queue group each takes messages, one by
        one. What is not given stays as the group has it. Raises SettingsDiffer if the group exists and has another
        mode, or other settings than those given: `configure_group` changes them.
        """
        self.store.check_writable()
        member = open_group(self, name, mode, options)
        self._members.add(member)
        return member

    def broadcast(
        self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None, wait: Duration | None = None
    ) -> Broadcast:
        """Everything that is put from now on, or from `start` on, to iterate or to `read`. It keeps no position.

        `start` is START, END, a time, or a number for each partition. Iterating ends after `wait` seconds of silence.
        """
        self.store.check_open()
        return Broadcast(self, tag=tag, start=start, wait=wait)

    def groups(self) -> list[str]:
        """The names of the groups, sorted."""
        self.store.check_open()
        return group_names(self.filesystem, self.directory)

    def group_settings(self, name: str) -> GroupSettings:
        """The settings of a group; NoSuchGroup where there is none."""
        self.store.check_open()
        return group_settings(self, name)

    def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """Changes settings of a group, for every process, and returns those it has now.

        Members of a stream group that are at work see the change soon, those of a queue group when they open the group
        next. Raises NoSuchGroup if there is none.
        """
        self.store.check_writable()
        return configure_group(self, name, changes)

    def describe_group(self, name: str) -> GroupDescription:
        """How far a group has come, seen without joining it; NoSuchGroup where there is none."""
        self.store.check_open()
        return describe_group(self, name)

    def dead_letters(self, group: str | None = None) -> Iterator[Letter]:
        """The dead letters of a group, or of all, that were not put back, the oldest first."""
        self.store.check_open()
        return letters(self, group)

    def put_back(self, group: str) -> list[PutBackPart]:
        """Which dead letters of a group were put back, by partition of the dead-letter topic."""
        self.store.check_open()
        return put_back_parts(self, group)

    def delete_group(self, name: str) -> None:
        """Remove a group with its positions and leases, for every process; NoSuchGroup where there is none."""
        self.store.check_writable()
        delete_group(self, name)

    # --- Keeping house ---

    def describe(self) -> TopicDescription:
        """The settings, partitions and groups of the topic as they are now. No message is read."""
        self.refresh()
        return TopicDescription(
            topic=str(self.name),
            settings=self.settings,
            partitions=[describe_partition(number, log) for number, log in enumerate(self.logs)],
            groups=self.groups(),
        )

    def refresh(self) -> None:
        """See what other processes changed in the settings, such as partitions that were added."""
        self.store.refresh_topic(self)

    def configure(self, **changes: Any) -> TopicSettings:
        """Change settings, for every process: others see it when they open the topic next. The settings now."""
        return self.store.configure_topic(self.name, changes)

    def retire(self) -> None:
        """Removes the messages that the settings no longer keep."""
        self.store.check_writable()
        for log in self.logs:
            retire(log, self.settings, self.clock.now_ns() // 1000)

    def differs(self, partitions: int | None, given: Mapping[str, Any]) -> None:
        """SettingsDiffer where the topic was opened with settings that it does not have."""
        wanted = dict(given) if partitions is None else {"partitions": partitions, **given}
        for name, value in wanted.items():
            kept = getattr(self.settings, name)
            if kept != value:
                raise SettingsDiffer(f"topic {str(self.name)!r}", name, value, kept, "change it with topic.configure()")

    def close(self) -> None:
        """Close the members of groups, and the logs. The store does this."""
        for member in list(self._members):
            member.close()
        self.delay.close()
        logs, self._logs = self._logs, []
        _close(logs)

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {self._partition_count} partitions, in {os.path.basename(self.store.path)}>"


def _close(logs: Sequence[Log]) -> None:
    for log in logs:
        # Whoever deleted the topic left nothing to close.
        with suppress(*GONE):
            log.close()
