"""Topic: partitions with a name and settings. Messages are put, read by number and time, and consumed by groups."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, Unpack, overload

from warren.api.values import ColumnOptions, GroupOptions, MessageFields, PutManyOptions, PutOptions, When, Where
from warren.clock import Duration, microseconds
from warren.errors import GONE, BadInput, IsAQueue, NoSuchPartition, NoSuchTopic, SettingsDiffer, WarrenError
from warren.message import NO_CORR_OFFSET, Message, Origin, Place, TopicReceipt
from warren.queue.broadcast import Broadcast
from warren.queue.delay.delay import Delay
from warren.queue.delay.handles import Delayed, Scheduled
from warren.queue.group_description import GroupDescription, describe_group, group_settings
from warren.queue.groups import configure_group, delete_group, open_group
from warren.queue.leases.dead_letter_views import Letter, PutBackPart, letters, put_back_parts
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.leases.renewal import LeasingStore
from warren.queue.merge_by_time import Range, last_by_time, merged_by_time
from warren.queue.request import answer, reply_headers, request
from warren.queue.state import paths
from warren.queue.state.description import TopicDescription, describe_partition
from warren.queue.state.group_settings import GroupSettings, group_names
from warren.queue.state.json_file import read_json
from warren.queue.state.places import Places
from warren.queue.state.retention import retire
from warren.queue.state.routing import partition_of, split_by_partition
from warren.queue.state.settings import TopicSettings, check_sizes
from warren.queue.stream.stream_group import StreamGroup
from warren.storage import Log
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BODY_SIZE_MAX

NO_PUTS: Final = -1
"""A size limit that every body exceeds, even an empty one."""


class TopicStore(LeasingStore, Protocol):
    """The store of a topic. `Store` is the only implementation."""

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> Topic: ...
    def existing_topic(self, name: str) -> Topic: ...
    def refresh_topic(self, topic: Topic) -> None: ...
    def configure_topic(self, name: str, changes: Mapping[str, Any]) -> TopicSettings: ...
    def delete_topic(self, name: str) -> None: ...
    def keep(self) -> float: ...
    def close(self) -> None: ...


class Topic:
    """One topic of an open store. Any thread and any number of processes may use it at the same time.

    Messages with the same key keep their order, because they go to the same partition. `routing` describes the hash.
    """

    def __init__(self, store: TopicStore, name: str, settings: TopicSettings, *, is_queue: bool = False) -> None:
        self.store, self.settings, self.is_queue = store, settings, is_queue
        self.filesystem, self.clock = store.filesystem, store.clock
        self.name = Origin(name)
        self.name.answer = functools.partial(answer, self)
        self.directory = paths.topic_directory(store.path, name)
        self.file = paths.topic_file(self.directory)
        self.delay = Delay(self)
        # Does not start at 0. Otherwise programs that put one message and end would all put it to partition 0.
        self._turn = itertools.count(store.clock.now_ns() // 1000)
        self._logs: list[Log] = []
        self._members: weakref.WeakSet[StreamGroup | QueueGroup] = weakref.WeakSet()
        self.take_settings(settings)

    # --- Its partitions ---

    def take_settings(self, settings: TopicSettings) -> None:
        """Applies the settings. Opens the logs again if a setting that concerns them has changed."""
        old, self.settings = self.settings, settings
        concerned = ("durability", "block_size", "compression", "replication")
        closing = self._logs if any(getattr(old, name) != getattr(settings, name) for name in concerned) else []
        unchanged = [] if closing else self._logs
        # A new list, so that other threads never see half of it. If two threads do this at the same time, both make the
        # same list.
        self._logs = [*unchanged, *map(self._open_log, range(len(unchanged), settings.partitions))]
        self.partition_count = settings.partitions
        # No body is small enough for the topic of a queue. So the size check, which every put makes anyway, also
        # refuses these puts, and only then `check_takes_puts` finds the reason. This costs an ordinary put nothing.
        takes_none = self.is_queue or self.store.is_read_only
        self.put_size_max = NO_PUTS if takes_none else settings.message_size_max
        if closing:
            with self.delay.standing_still():
                self.delay.close()
                _close(closing)

    def _open_log(self, partition: int) -> Log:
        settings, store = self.settings, self.store
        return Log.open(
            paths.partition_directory(self.directory, partition),
            version=settings.version,
            durability=settings.durability,
            block_size=settings.block_size,
            compression=settings.compression,
            replication=settings.log_replication,
            topic=self.name,
            partition=partition,
            filesystem=store.filesystem,
            clock=store.clock,
        )

    def see_partitions(self) -> int:
        """Returns the number of partitions, including those that another process has added."""
        path = paths.partition_directory(self.directory, self.partition_count)
        if self.filesystem.exists(path):
            path = self.file
            data = read_json(self.filesystem, path)
            if data is not None:
                count = TopicSettings.from_json(path, data).partitions
                self.take_settings(dataclasses.replace(self.settings, partitions=count))
        return self.partition_count

    @property
    def logs(self) -> Sequence[Log]:
        """The log of each partition. Raises StoreClosed if the store is closed."""
        self.store.check_open()
        return self._logs

    @property
    def waits_for_replicas(self) -> bool:
        return self.store.is_replicated and self.settings.replication == "sync"

    @property
    def syncs_answers(self) -> bool:
        return self.settings.durability == "commit" or self.waits_for_replicas

    @property
    def loses_nothing(self) -> bool:
        is_async = self.store.is_replicated and self.settings.replication == "async"
        return self.settings.durability == "commit" and not is_async

    def partition(self, number: int) -> Log:
        """Returns the log of one partition, with `at`, `read`, `backwards`, `find_time`, `scan` and more.

        Raises NoSuchPartition if the topic has fewer partitions.
        """
        if number not in range(self.partition_count):
            raise NoSuchPartition(self.name, number, self.partition_count)
        return self.logs[number]

    # --- Putting ---

    @overload
    def put(
        self, body: bytes, *, delay: None = None, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> TopicReceipt: ...

    @overload
    def put(
        self, body: bytes, *, delay: Duration, deliver_at: None = None, **options: Unpack[PutOptions]
    ) -> Delayed: ...

    @overload
    def put(self, body: bytes, *, delay: None = None, deliver_at: When, **options: Unpack[PutOptions]) -> Delayed: ...

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
        deliver_at: When | None = None,
    ) -> TopicReceipt | Delayed:
        """Puts one message, and returns its receipt when it is as durable as the topic's settings say.

        With a key the message goes to the partition of that key. Without one the partitions take turns, unless the
        caller names a `partition`. A consumer that calls `reply` on the message answers to the topic `reply_to`. With a
        `delay` in seconds, or a time to `deliver_at`, the message is parked (delayed) and put when it is due; the
        handle that is returned can cancel it.

        Raises TooLarge if the message is over a limit, and NoSuchTopic if the topic was deleted.
        """
        if reply_to:
            headers = reply_headers(headers, reply_to)
        if delay is not None or deliver_at is not None:
            self.check_body(body)
            fields = MessageFields(key, tag, headers, id, corr_offset)
            return self.delay.put(body, self.delay.due_us(delay, deliver_at), fields, partition)
        if partition is None:
            number = 0 if self.partition_count == 1 else self.route(key)
            log = self.logs[number]
        else:
            number = partition
            log = self.partition(number)
        if self.put_size_max != BODY_SIZE_MAX:  # The log checks its own limit.
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
        """Puts a message, waits until a consumer answers it with `message.reply`, and returns the answer.

        The answer goes to the topic `<topic>.replies`. Raises NoReply if none comes within `timeout` seconds.
        """
        return request(self, body, timeout, key, tag, headers)

    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: None = None, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> Sequence[Place]: ...

    @overload
    def put_many(
        self, bodies: Sequence[bytes], *, delay: Duration, deliver_at: None = None, **options: Unpack[PutManyOptions]
    ) -> list[Delayed]: ...

    @overload
    def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        delay: None = None,
        deliver_at: When,
        **options: Unpack[PutManyOptions],
    ) -> list[Delayed]: ...

    def put_many(
        self,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        partition: int | None = None,
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> Sequence[Place] | list[Delayed]:
        """Puts messages together, with one commit for each partition, and returns the place of each, in order.

        Without keys all go to one partition; calls take turns. `tag` is for all messages, `tags` has one for each. With
        a `delay` or `deliver_at` all are parked until then, and the handles that are returned can cancel them.
        """
        self.check_bodies(bodies)
        if delay is not None or deliver_at is not None:
            batch = Batch(bodies, **columns)
            return self.delay.put_many(batch, self.delay.due_us(delay, deliver_at), tag=tag, partition=partition)
        try:
            if columns.get("keys") is None or partition is not None or self.partition_count == 1:
                number = self._next() if partition is None else partition
                return Places(number, self.partition(number).append_many(bodies, tag=tag, **columns))
            return self._put_by_key(Batch(bodies, **columns), tag)
        except GONE as error:
            raise NoSuchTopic(self.name) from error

    def _put_by_key(self, batch: Batch, tag: str) -> list[Place]:
        places = [Place(-1, -1)] * len(batch.bodies)
        for part in split_by_partition(batch, self.partition_count, self._next()):
            numbers = self.logs[part.partition].append_many(**part.batch._asdict(), tag=tag)
            for row, number in zip(part.rows, numbers, strict=True):
                places[row] = Place(part.partition, number)
        return places

    def check_takes_puts(self) -> None:
        """Raises IsAQueue if only a durable queue puts into the topic, and ReadOnlyStore if the store is read-only."""
        self.store.check_writable()
        if self.is_queue:
            raise IsAQueue(str(self.name))

    def check_body(self, body: bytes) -> None:
        """Raises TooLarge if the body is over the limit of the topic, and BadInput if it is not bytes."""
        try:
            size = len(body)
        except TypeError as error:
            raise BadInput(f"body: expected bytes, not {type(body).__name__}") from error
        if size > self.put_size_max:
            self.check_takes_puts()
            check_sizes((body,), self.put_size_max)

    def check_bodies(self, bodies: Sequence[bytes]) -> None:
        """Raises TooLarge if one of the bodies is over the limit of the topic. The log checks its own limit."""
        if self.put_size_max != BODY_SIZE_MAX:
            self.check_takes_puts()
            check_sizes(bodies, self.put_size_max)

    def _next(self) -> int:
        return next(self._turn) % self.partition_count

    def route(self, key: bytes | None) -> int:
        """Returns the partition of a message with this key. Without a key, partitions take turns."""
        if self.partition_count == 1:
            return 0
        if key is None:
            return self._next()
        try:
            return partition_of(key, self.partition_count)
        except TypeError as error:
            raise BadInput(f"key: expected bytes, not {type(key).__name__}") from error

    # --- What is parked ---

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """Yields the parked messages by due time, at most `limit` of them. They are read page by page."""
        return self.delay.scheduled(limit)

    def cancel(self, handle_id: str) -> bool:
        """Cancels a delayed message by the id of its handle.

        Returns True if it will never be delivered, False if it was delivered already.
        """
        self.store.check_writable()
        return self.delay.cancel(handle_id)

    # --- Reading by place and time ---

    def last(self, count: int = 1) -> list[Message]:
        """Returns the last `count` messages of all partitions, sorted by time."""
        return last_by_time(self.logs, count)

    def since(self, when: When, *, tag: str | None = None) -> Iterator[Message]:
        """Yields the messages from the time `when` up to the current end, sorted by time over all partitions."""
        return self._merged(when, None, tag)

    def between(self, start: When, end: When, *, tag: str | None = None) -> Iterator[Message]:
        """Yields the messages from the time `start` on and before `end`, sorted by time over all partitions."""
        return self._merged(start, end, tag)

    def _merged(self, start: When, end: When | None, tag: str | None) -> Iterator[Message]:
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
        """Returns a member of the group (consumer group) `name`, and creates it if it does not exist.

        The members of a group share its messages. In a stream group each member owns partitions and reads them in
        order. In a queue group each worker takes messages one by one. An option that is omitted keeps its value. Raises
        SettingsDiffer if the group has another mode, or settings other than those given: `configure_group` changes
        them.
        """
        self.store.check_writable()
        member = open_group(self, name, mode, options)
        self._members.add(member)
        return member

    def broadcast(
        self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None, wait: Duration | None = None
    ) -> Broadcast:
        """Returns a listener for every message that is put from now on, or from `start` on. It stores no position.

        `start` is START, END, a time, or a number for each partition. An iteration over it ends after `wait` seconds
        without a message.
        """
        self.store.check_open()
        return Broadcast(self, tag=tag, start=start, wait=wait)

    def groups(self) -> list[str]:
        """Returns the names of the groups, sorted."""
        self.store.check_open()
        return group_names(self.filesystem, self.directory)

    def group_settings(self, name: str) -> GroupSettings:
        """Returns the settings of a group. Raises NoSuchGroup if it does not exist."""
        self.store.check_open()
        return group_settings(self, name)

    def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """Changes settings of a group, for every process, and returns the new ones.

        Members of a stream group notice the change soon, workers of a queue group when they open the group next. Raises
        NoSuchGroup if the group does not exist.
        """
        self.store.check_writable()
        return configure_group(self, name, changes)

    def describe_group(self, name: str) -> GroupDescription:
        """Returns the progress of a group, without joining it. Raises NoSuchGroup if it does not exist."""
        self.store.check_open()
        return describe_group(self, name)

    def dead_letters(self, group: str | None = None) -> Iterator[Letter]:
        """Yields the dead letters of a group, or of all groups, that were not put back, the oldest first."""
        self.store.check_open()
        return letters(self, group)

    def put_back(self, group: str) -> list[PutBackPart]:
        """Returns which dead letters of a group were put back, by partition of the dead-letter topic."""
        self.store.check_open()
        return put_back_parts(self, group)

    def delete_group(self, name: str) -> None:
        """Deletes a group with its positions and leases, for every process. Raises NoSuchGroup if it does not exist."""
        self.store.check_writable()
        delete_group(self, name)

    # --- Keeping house ---

    def describe(self) -> TopicDescription:
        """Returns the current settings, partitions and groups of the topic, without reading a message."""
        self.refresh()
        return TopicDescription(
            topic=str(self.name),
            settings=self.settings,
            partitions=[describe_partition(number, log) for number, log in enumerate(self.logs)],
            groups=self.groups(),
        )

    def refresh(self) -> None:
        """Applies the settings that other processes changed, such as added partitions."""
        self.store.refresh_topic(self)

    def configure(self, **changes: Any) -> TopicSettings:
        """Changes settings, for every process, and returns the new ones.

        Other processes apply them when they next open the topic.
        """
        return self.store.configure_topic(self.name, changes)

    def retire(self) -> None:
        """Removes the messages that the settings no longer keep."""
        self.store.check_writable()
        if self.settings.retention_consumed:
            for member in list(self._members):
                # An idle worker does not report by itself what it has consumed. If it was deleted or cannot be read, it
                # reports nothing, and what it has not consumed is kept.
                if isinstance(member, QueueGroup):
                    with suppress(WarrenError, *GONE):
                        member.report_consumed()
        for log in self.logs:
            retire(log, self.settings, self.clock.now_ns() // 1000)

    def differs(self, partitions: int | None, settings: Mapping[str, Any]) -> None:
        """Raises SettingsDiffer if the caller expects a setting that the topic does not have."""
        expected = dict(settings) if partitions is None else {"partitions": partitions, **settings}
        for name, value in expected.items():
            own = getattr(self.settings, name)
            if own != value:
                raise SettingsDiffer(f"topic {str(self.name)!r}", name, value, own, "change it with topic.configure()")

    def close(self) -> None:
        """Closes the members of groups, and the logs. The store calls this."""
        for member in list(self._members):
            member.close()
        self.delay.close()
        logs, self._logs = self._logs, []
        _close(logs)

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {self.partition_count} partitions, in {os.path.basename(self.store.path)}>"


def _close(logs: Sequence[Log]) -> None:
    for log in logs:
        # If the topic was deleted, there is nothing left to close.
        with suppress(*GONE):
            log.close()
