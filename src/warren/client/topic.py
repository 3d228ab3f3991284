"""RemoteTopic: a topic of a broker, with the methods of a topic that is here."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from warren.client.broadcast import RemoteBroadcast
from warren.client.calls import same
from warren.client.groups import QueueWorker, StreamMember, group_options, open_group
from warren.client.log import RemoteLog
from warren.client.seen_group import group_description
from warren.client.transaction import due_values, put_values, single
from warren.clock import Duration, microseconds
from warren.config import GROUP_NAME_SIZE_MAX, LONE_BODY_SIZE_MAX, READ_LIMIT_DEFAULT
from warren.errors import BadInput, NoSuchPartition, TooLarge
from warren.message import NO_CORR_OFFSET, Message, Origin, Place, TopicReceipt
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY, position_values, positions_of, setting_values, settings_of
from warren.protocol.own_append import LoneAppend
from warren.protocol.own_records import messages_of, record_values
from warren.protocol.own_schemas import OwnKey
from warren.queue.by_time import Range, last_by_time, merged_by_time
from warren.queue.delayed import Delayed, Scheduled, due_time, parse_handle_id
from warren.queue.description import PartitionDescription, TopicDescription
from warren.queue.group_description import GroupDescription
from warren.queue.group_settings import GroupSettings
from warren.queue.groups import GroupOptions
from warren.queue.letters import Letter, letter_of
from warren.queue.names import checked_name
from warren.queue.places import Places
from warren.queue.positions import Where
from warren.queue.put_back import PutBackPart
from warren.queue.request import answer, reply_headers, request
from warren.queue.rotation import checked_limit
from warren.queue.routing import partition_of, rows_by_partition
from warren.queue.settings import TopicSettings
from warren.storage.block import record_size_max
from warren.storage.columns import Batch
from warren.storage.compression import compression_code
from warren.storage.format import FORMATS
from warren.storage.lone import pack_lone
from warren.storage.packing import pack_batch
from warren.storage.record import Packed, check_bodies, check_body

if TYPE_CHECKING:
    import pyarrow

    from warren.client.store import RemoteStore


class RemoteTopic:
    """One topic of a broker. Any thread may use it.

    Messages are packed here, checked and stamped there. A put that is repeated because its answer was lost is written
    once: its records carry a marker of this put alone.
    """

    def __init__(self, store: RemoteStore, name: str, shown: Fields) -> None:
        self.store = store
        self.name = Origin(name)
        self.name.answer = functools.partial(answer, self)
        self._turn = itertools.count(store.calls.clock.now_ns() // 1000)
        self._ends: dict[int, int] = {}
        self.take_settings(settings_of(shown.settings))
        self._note(shown)

    def take_settings(self, settings: Mapping[str, Any]) -> None:
        """These are the settings now."""
        names = TopicSettings.names()
        self.settings = TopicSettings(**{name: value for name, value in settings.items() if name in names})
        self._partition_count = self.settings.partitions
        self._size_max = self.settings.message_size_max
        self._compression = compression_code(self.settings.compression)
        # Packed by version 2 for any topic: the broker takes apart what a log of version 1 does not take.
        self._record_size_max = record_size_max(FORMATS[2], self.settings.block_size)

    def _note(self, shown: Fields) -> None:
        self._ends.update({part.partition: part.end for part in shown.partitions})

    def shown(self, *, is_described: bool = False) -> Fields:
        """The topic as it is now; NoSuchTopic where it is there no more."""
        values = {"topic": str(self.name), "must_exist": True, "is_described": is_described}
        shown = self.store.calls.call(OwnKey.OPEN_TOPIC, values, repeat=same)
        self.take_settings(settings_of(shown.settings))
        self._note(shown)
        return shown

    def known_end(self, partition: int) -> int:
        """Where the partition ended when that was seen last."""
        return self._ends.get(partition, 0)

    # --- Its partitions ---

    @property
    def partition_count(self) -> int:
        return self._partition_count

    @property
    def logs(self) -> Sequence[RemoteLog]:
        """Each of the partitions."""
        return [RemoteLog(self, number) for number in range(self._partition_count)]

    def partition(self, number: int) -> RemoteLog:
        """One partition: `at`, `read`, `backwards`, `find_time`, `scan` and more."""
        if number not in range(self._partition_count):
            self.shown()
        if number not in range(self._partition_count):
            raise NoSuchPartition(self.name, number, self._partition_count)
        return RemoteLog(self, number)

    # --- Putting ---

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
    ) -> Any:
        """Put one message; its receipt, when it is as durable as the topic's settings say.

        With a `delay` in seconds, or a time to `deliver_at`, it is parked until then; what is given back can cancel it.
        """
        if reply_to:
            headers = reply_headers(headers, reply_to)
        if type(body) is not bytes:
            check_body(body)
        if len(body) > self._size_max:
            raise TooLarge("body", len(body), self._size_max)
        if delay is not None or deliver_at is not None:
            batch = single(body, key, tag, headers, id, corr_offset)
            return self._park(batch, "", partition, due_values(delay, deliver_at))[0]
        if (
            type(body) is bytes
            and len(body) <= LONE_BODY_SIZE_MAX
            and key is None
            and not (headers or id or self._compression)
            and corr_offset == NO_CORR_OFFSET
        ):
            return self._put_lone(body, tag, partition)
        batch = single(body, key, "", headers, id, corr_offset)
        number = self.route(key) if partition is None else partition
        self._check_partition(number)
        marker = self.store.calls.new_marker()
        records = [(number, packed) for packed in self._pack(batch, tag, marker)]
        found = self._append(records, marker, is_receipt_wanted=True)
        at = positions_of(found.positions)[number]
        return TopicReceipt(self.name, number, at, found.offset, found.timestamp, id)

    def _put_lone(self, body: bytes, tag: str, partition: int | None) -> TopicReceipt:
        """`put` of what has nothing but a body and a tag."""
        number = self._next() if partition is None else partition
        if not 0 <= number < self._partition_count:
            self._check_partition(number)
        marker = self.store.calls.new_marker()
        payload, checksum, _ = pack_lone(body, tag, marker)
        asked = LoneAppend(self.name, marker, False, self._ends.get(number, 0), number, checksum, payload)
        found = self.store.calls.append(asked)
        at = found.positions[0].number
        self._ends[number] = at
        if found.partition_count > self._partition_count:
            self._partition_count = found.partition_count
        return TopicReceipt(self.name, number, at, found.offset, found.timestamp, "")

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
    ) -> Sequence[Any]:
        """Put messages together, with one commit for each partition they go to; the place of each, in order."""
        batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
        batch.check()
        self.check_bodies(bodies)
        if delay is not None or deliver_at is not None:
            return self._park(batch, tag, partition, due_values(delay, deliver_at)) if bodies else []
        keyless = self._next() if partition is None else partition
        self._check_partition(keyless)
        if not bodies:
            return Places(keyless, range(0))
        if keys is None or partition is not None or self._partition_count == 1:
            first = self.append({keyless: batch}, tag)[keyless]
            return Places(keyless, range(first, first + len(bodies)))
        return self._put_by_key(batch, tag, keys, keyless)

    def _put_by_key(self, batch: Batch, tag: str, keys: Sequence[bytes | None], keyless: int) -> list[Place]:
        try:
            parts = rows_by_partition(keys, self._partition_count, keyless)
        except TypeError as error:
            raise BadInput("every key is bytes or None") from error
        places = [Place(-1, -1)] * len(batch.bodies)
        firsts = self.append({number: _picked(batch, rows) for number, rows in sorted(parts.items())}, tag)
        for number, rows in parts.items():
            for row, at in zip(rows, itertools.count(firsts[number]), strict=False):
                places[row] = Place(number, at)
        return places

    def append(self, parts: Mapping[int, Batch], tag: str) -> dict[int, int]:
        """Append a batch to each of some partitions; the number of the first message in each."""
        if tag and any(batch.tags is not None for batch in parts.values()):
            raise BadInput("give either tag, for all, or tags, one for each")
        marker = self.store.calls.new_marker()
        records = [(number, packed) for number, batch in parts.items() for packed in self._pack(batch, tag, marker)]
        return positions_of(self._append(records, marker).positions)

    def append_arrow(self, partition: int, batch: pyarrow.RecordBatch) -> int:
        """Append the rows of an Arrow record batch; the number of the first."""
        from warren.storage.arrow_packing import pack_arrow

        marker = self.store.calls.new_marker()
        packed = pack_arrow(batch, self._compression, self._record_size_max, marker)
        found = self._append([(partition, each) for each in packed], marker)
        return positions_of(found.positions)[partition]

    def _pack(self, batch: Batch, tag: str, marker: bytes) -> list[Packed]:
        batch.check()
        return list(pack_batch(batch, tag, self._compression, self._record_size_max, marker))

    def _append(
        self, records: Sequence[tuple[int, Packed]], marker: bytes, *, is_receipt_wanted: bool = False
    ) -> Fields:
        since = {number: self.known_end(number) for number, _ in records}
        values = {
            "topic": str(self.name),
            "marker": marker,
            "is_receipt_wanted": is_receipt_wanted,
            "since": position_values(since),
            "records": [record_values(number, packed) for number, packed in records],
        }
        found = self.store.calls.call(OwnKey.APPEND, values, repeat=_repeated)
        self._ends.update(positions_of(found.positions))
        self._partition_count = max(self._partition_count, found.partition_count)
        return found

    # --- What is parked ---

    def _park(self, batch: Batch, tag: str, partition: int | None, due: Values) -> list[Delayed]:
        values = {**put_values(str(self.name), batch, tag, partition), **due}
        ids = self.store.calls.call(OwnKey.PARK, values).ids
        return [Delayed(self, *parse_handle_id(id)) for id in ids]

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """What was put with a delay and is not due yet, by due time, the first `limit` of it; read page by page."""
        if limit is not None:
            checked_limit(limit)
        return self._scheduled(limit)

    def _scheduled(self, limit: int | None) -> Iterator[Scheduled]:
        after, left = "", limit
        while left is None or left > 0:
            count = READ_LIMIT_DEFAULT if left is None else min(left, READ_LIMIT_DEFAULT)
            values = {"topic": str(self.name), "after": after, "limit": count}
            answer = self.store.calls.call(OwnKey.LIST_PARKED, values, repeat=same)
            yield from map(_parked, answer.parked, messages_of(answer.messages, self.name))
            if not answer.parked:
                return
            after = answer.parked[-1].id
            left = None if left is None else left - len(answer.parked)

    def cancel(self, handle_id: str) -> bool:
        """Cancel a delayed message by the id of its handle. True: it will never be delivered; False: too late."""
        parse_handle_id(handle_id)
        values = {"topic": str(self.name), "id": handle_id}
        return bool(self.store.calls.call(OwnKey.CANCEL_PARKED, values).is_cancelled)

    def check_bodies(self, bodies: Sequence[bytes]) -> None:
        """TooLarge where the topic takes one of them not."""
        try:
            largest = max(map(len, bodies), default=0)
        except TypeError:
            check_bodies(bodies)
            raise
        if largest > self.settings.message_size_max:
            raise TooLarge("body", largest, self.settings.message_size_max)

    def _check_partition(self, number: int) -> None:
        if number not in range(self._partition_count):
            self.partition(number)

    def _next(self) -> int:
        return next(self._turn) % self._partition_count

    def route(self, key: bytes | None) -> int:
        """The partition that a message with this key goes to; without a key the next in turn."""
        if key is None:
            return self._next()
        try:
            return partition_of(key, self._partition_count)
        except TypeError as error:
            raise BadInput(f"a key is bytes, not {type(key).__name__}") from error

    def request(
        self,
        body: bytes,
        *,
        timeout: Duration = 30.0,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
    ) -> Message:
        """Put a message, and wait until somebody who consumes it answers with `message.reply`; the answer."""
        return request(self, body, timeout, key, tag, headers)

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
        firsts = self.find_time(microseconds(start))
        if end is None:
            ends = {part.partition: part.end for part in self.shown().partitions}
        else:
            ends = self.find_time(microseconds(end))
        ranges = [Range(self.partition(number), first, ends[number]) for number, first in firsts.items()]
        return merged_by_time(ranges, tag)

    def find_time(self, time_us: int) -> dict[int, int]:
        """In each partition the number of the first message at or after a time."""
        values = {"topic": str(self.name), "time": time_us}
        return positions_of(self.store.calls.call(OwnKey.FIND_TIME, values, repeat=same).positions)

    # --- Consuming ---

    @overload
    def group(self, name: str, *, mode: Literal["stream"] = ..., **options: Unpack[GroupOptions]) -> StreamMember: ...

    @overload
    def group(self, name: str, *, mode: Literal["queue"], **options: Unpack[GroupOptions]) -> QueueWorker: ...

    def group(
        self, name: str, *, mode: Literal["stream", "queue"] = "stream", **options: Unpack[GroupOptions]
    ) -> StreamMember | QueueWorker:
        """A member of the group `name`, which is made where there is none. Members share the messages of a group."""
        return open_group(self, name, mode, options)

    def broadcast(
        self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None, wait: Duration | None = None
    ) -> RemoteBroadcast:
        """Everything that is put from now on, or from `start` on, to iterate or to `read`. It keeps no position."""
        return RemoteBroadcast(self, tag=tag, start=start, wait=wait)

    def group_settings(self, name: str) -> GroupSettings:
        """The settings of a group; NoSuchGroup where there is none."""
        return GroupSettings(**settings_of(self._seen(name).settings))

    def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """Changes settings of a group, for every client, and returns those it has now.

        Members of a stream group that are at work see the change soon, those of a queue group when they open the group
        next. Raises NoSuchGroup if there is none.
        """
        checked_name("group", name, GROUP_NAME_SIZE_MAX)
        values = {"topic": str(self.name), "group": name, "settings": setting_values(group_options(changes))}
        found = self.store.calls.call(OwnKey.CONFIGURE_GROUP, values, repeat=same)
        return GroupSettings(**settings_of(found.settings))

    def describe_group(self, name: str) -> GroupDescription:
        """How far a group has come, seen without joining it; NoSuchGroup where there is none."""
        return group_description(str(self.name), name, self._seen(name, is_described=True))

    def put_back(self, group: str) -> list[PutBackPart]:
        """Which dead letters of a group were put back, by partition of the dead-letter topic."""
        found = self._seen(group, is_put_back_wanted=True).put_back
        return [PutBackPart(part.partition, part.start, list(part.numbers)) for part in found]

    def _seen(self, group: str, *, is_described: bool = False, is_put_back_wanted: bool = False) -> Fields:
        checked_name("group", group, GROUP_NAME_SIZE_MAX)
        wanted = {"is_described": is_described, "is_put_back_wanted": is_put_back_wanted}
        values = {"topic": str(self.name), "group": group, **wanted}
        return self.store.calls.call(OwnKey.SEE_GROUP, values, repeat=same)

    def dead_letters(self, group: str | None = None) -> Iterator[Letter]:
        """The dead letters of a group, or of all, that were not put back, the oldest first; read page by page."""
        values: dict[str, Any] = {"topic": str(self.name), "group": group, "limit": READ_LIMIT_DEFAULT}
        while True:
            answer = self.store.calls.call(OwnKey.LIST_DEAD, values, repeat=same)
            found = messages_of(answer.messages, answer.topic)
            yield from (letter for letter in map(letter_of, found) if letter is not None)
            if not found:
                return
            values["positions"] = position_values(positions_of(answer.positions))

    def delete_group(self, name: str) -> None:
        """Remove a group with its positions and leases, for everybody; NoSuchGroup where there is none."""
        self.store.calls.call(OwnKey.DELETE_GROUP, {"topic": str(self.name), "group": name})

    # --- Keeping house ---

    def groups(self) -> list[str]:
        """The names of the groups, sorted."""
        return list(self.shown(is_described=True).groups)

    def describe(self) -> TopicDescription:
        """The settings, partitions and groups of the topic as they are now. No message is read."""
        shown = self.shown(is_described=True)
        return TopicDescription(
            topic=str(self.name),
            settings=self.settings,
            partitions=[_described(part) for part in shown.partitions],
            groups=list(shown.groups),
        )

    def refresh(self) -> None:
        """See what others changed in the settings, such as partitions that were added."""
        self.shown()

    def retire(self) -> None:
        """Remove the blocks that the settings no longer keep."""
        self.store.calls.call(OwnKey.RETIRE_TOPIC, {"topic": str(self.name)}, repeat=same)

    def configure(self, **changes: Any) -> TopicSettings:
        """Change settings, for everybody. The settings now."""
        values = {"topic": str(self.name), "settings": setting_values(changes)}
        found = self.store.calls.call(OwnKey.CONFIGURE_TOPIC, values, repeat=same)
        self.take_settings(settings_of(found.settings))
        return self.settings

    def __repr__(self) -> str:
        return f"<RemoteTopic {self.name}, {self._partition_count} partitions, at {self.store.calls.address}>"


def _repeated(values: Values) -> Values:
    return {**values, "is_retry": True}


def _picked(batch: Batch, rows: Sequence[int]) -> Batch:
    columns: list[Any] = [None if column is None else [column[row] for row in rows] for column in batch]
    return Batch(*columns)


def _parked(entry: Fields, message: Message) -> Scheduled:
    partition = None if entry.partition == ANY else entry.partition
    fields = message.key, message.tag, message.headers, message.id, message.corr_offset
    return Scheduled(entry.id, due_time(entry.due), *fields, partition, message.body)


def _described(part: Fields) -> PartitionDescription:
    return PartitionDescription(
        partition=part.partition,
        first=part.first,
        end=part.end,
        bytes=part.size,
        created=part.created,
        updated=part.updated,
    )
