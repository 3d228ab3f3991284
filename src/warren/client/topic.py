"""RemoteTopic: a broker's topic, with the methods of a topic of an embedded store."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from warren.api.values import (
    ColumnOptions,
    FieldOptions,
    GroupOptions,
    MessageFields,
    PutManyOptions,
    PutOptions,
    When,
    Where,
)
from warren.client.broadcast import RemoteBroadcast
from warren.client.groups import QueueWorker, StreamMember, group_description, group_options, open_group
from warren.client.log import RemoteLog
from warren.client.net.session import retried, same
from warren.client.transaction import Due, due_of, single_batch, wire_records
from warren.clock import Duration, microseconds
from warren.errors import BadInput, NoSuchPartition
from warren.limits import GROUP_NAME_SIZE_MAX, READ_LIMIT_DEFAULT
from warren.message import NO_CORR_OFFSET, Message, Origin, Place, TopicReceipt
from warren.protocol.native.append import SINGLE_BODY_SIZE_MAX
from warren.protocol.native.calls import ANY, positions_of, settings_of, wire_settings
from warren.protocol.native.records import messages_of, wire_record
from warren.protocol.native_messages import (
    AppendRequest,
    AppendResponse,
    CancelParkedRequest,
    ConfigureGroupRequest,
    ConfigureTopicRequest,
    DeleteGroupRequest,
    FindTimeRequest,
    ListDeadRequest,
    ListParkedRequest,
    ListParkedResponseParked,
    OpenTopicRequest,
    OpenTopicResponse,
    OpenTopicResponsePartition,
    ParkRequest,
    RetireTopicRequest,
    SeeGroupRequest,
    SeeGroupResponse,
    WirePosition,
)
from warren.queue.delay.handles import Delayed, Scheduled, due_time, parse_handle_id
from warren.queue.group_description import GroupDescription
from warren.queue.leases.dead_letter_views import Letter, PutBackPart, letter_of
from warren.queue.merge_by_time import Range, last_by_time, merged_by_time
from warren.queue.request import answer, reply_headers, request
from warren.queue.state.description import PartitionDescription, TopicDescription
from warren.queue.state.group_settings import GroupSettings
from warren.queue.state.places import Places
from warren.queue.state.routing import partition_of, split_by_partition
from warren.queue.state.settings import TOPIC_SETTINGS, TopicSettings, check_sizes, checked_name
from warren.queue.stream.rotation import checked_limit
from warren.storage.disk.block import record_size_max
from warren.storage.format.columns import Batch
from warren.storage.format.compression import compression_code
from warren.storage.format.packing import pack_batch
from warren.storage.format.plain_batch import pack_plain_batch
from warren.storage.format.record import Packed, check_body, check_size
from warren.storage.format.versions import FORMATS, VERSION_DEFAULT

if TYPE_CHECKING:
    import pyarrow

    from warren.client.remote_view import RemoteStoreView


class RemoteTopic:
    """One topic of a broker. Any thread may use it.

    The client packs messages; the broker checks and stamps them. If the client repeats a put because the answer was
    lost, the broker writes it once: the records carry a marker that only this put has.
    """

    def __init__(self, store: RemoteStoreView[RemoteTopic], name: str, state: OpenTopicResponse) -> None:
        self.store = store
        self.name = Origin(name)
        self.name.answer = functools.partial(answer, self)
        self._turn = itertools.count(store.calls.clock.now_ns() // 1000)
        self._ends: dict[int, int] = {}
        self.take_settings(settings_of(state.settings))
        self._note(state)

    def take_settings(self, settings: Mapping[str, Any]) -> None:
        """Applies the settings that the broker reports for the topic."""
        topic_settings = {name: value for name, value in settings.items() if name in TOPIC_SETTINGS}
        self.settings = TopicSettings(**topic_settings)
        self.partition_count = self.settings.partitions
        self._size_max = self.settings.message_size_max
        self._compression = compression_code(self.settings.compression)
        # Messages are packed as batches for any topic. The broker unpacks them if the log has no batches.
        self._record_size_max = record_size_max(FORMATS[VERSION_DEFAULT], self.settings.block_size)

    def _note(self, state: OpenTopicResponse) -> None:
        ends = {part.partition: part.end for part in state.partitions}
        self._ends.update(ends)
        self.store.reads.note(str(self.name), ends)

    def current_state(self, *, is_described: bool = False) -> OpenTopicResponse:
        """Returns the broker's current answer for the topic. Raises NoSuchTopic if the topic was deleted."""
        request = OpenTopicRequest(str(self.name), must_exist=True, is_described=is_described)
        state = self.store.calls.call(request, repeat=same)
        self.take_settings(settings_of(state.settings))
        self._note(state)
        return state

    # --- Its partitions ---

    @property
    def logs(self) -> Sequence[RemoteLog]:
        """Returns the log of each partition."""
        return [RemoteLog(self, number) for number in range(self.partition_count)]

    def partition(self, number: int) -> RemoteLog:
        """Returns the log of one partition, with `at`, `read`, `backwards`, `find_time`, `scan` and more."""
        if number not in range(self.partition_count):
            self.current_state()
        if number not in range(self.partition_count):
            raise NoSuchPartition(self.name, number, self.partition_count)
        return RemoteLog(self, number)

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
        partition: int | None = None,
        reply_to: str = "",
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **options: Unpack[FieldOptions],
    ) -> TopicReceipt | Delayed:
        """Puts one message, and returns its receipt when it is as durable as the topic's settings say.

        With a `delay` in seconds, or a time `deliver_at`, the message is parked until then. The returned handle can
        cancel it.
        """
        fields = MessageFields(**options)
        if reply_to:
            fields = fields._replace(headers=reply_headers(fields.headers, reply_to))
        if type(body) is not bytes:
            check_body(body)
        if len(body) > self._size_max:
            check_size("body", len(body), self._size_max)
        if delay is not None or deliver_at is not None:
            return self._park(single_batch(body, fields), "", partition, due_of(delay, deliver_at))[0]
        key, tag, headers, id, corr_offset = fields
        number = self.route(key) if partition is None else partition
        if not 0 <= number < self.partition_count:
            self._check_partition(number)
        marker = self.store.calls.new_marker()
        is_plain = key is None and not (headers or id or self._compression) and corr_offset == NO_CORR_OFFSET
        if is_plain and type(body) is bytes and len(body) <= SINGLE_BODY_SIZE_MAX:
            packed = pack_plain_batch(body, tag, marker)
        else:
            (packed,) = self._pack(single_batch(body, fields._replace(tag="")), tag, marker)
        since = WirePosition(number, self._ends.get(number, 0))
        answer = self._send(AppendRequest(self.name, marker, False, True, (since,), (wire_record(number, packed),)))
        return TopicReceipt(self.name, number, answer.positions[0].number, answer.offset, answer.timestamp, id)

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
        """Puts messages together, with one commit for each partition, and returns the place of each, in order."""
        batch = Batch(bodies, **columns)
        batch.check()
        self.check_bodies(bodies)
        if delay is not None or deliver_at is not None:
            return self._park(batch, tag, partition, due_of(delay, deliver_at)) if bodies else []
        keyless = self.route(None) if partition is None else partition
        self._check_partition(keyless)
        if not bodies:
            return Places(keyless, range(0))
        if batch.keys is None or partition is not None or self.partition_count == 1:
            first = self.append({keyless: batch}, tag)[keyless]
            return Places(keyless, range(first, first + len(bodies)))
        return self._put_by_key(batch, tag, keyless)

    def _put_by_key(self, batch: Batch, tag: str, keyless: int) -> list[Place]:
        parts = split_by_partition(batch, self.partition_count, keyless)
        places = [Place(-1, -1)] * len(batch.bodies)
        firsts = self.append({part.partition: part.batch for part in parts}, tag)
        for part in parts:
            for row, number in zip(part.rows, itertools.count(firsts[part.partition]), strict=False):
                places[row] = Place(part.partition, number)
        return places

    def append(self, parts: Mapping[int, Batch], tag: str) -> dict[int, int]:
        """Appends one batch to each of several partitions. Returns the number of the first message in each."""
        if tag and any(batch.tags is not None for batch in parts.values()):
            raise BadInput("pass either tag, for all messages, or tags, one for each")
        marker = self.store.calls.new_marker()
        records = [(number, packed) for number, batch in parts.items() for packed in self._pack(batch, tag, marker)]
        return positions_of(self._append(records, marker).positions)

    def append_arrow(self, partition: int, batch: pyarrow.RecordBatch) -> int:
        """Appends the rows of an Arrow record batch. Returns the number of the first row."""
        from warren.storage.arrow.arrow_packing import pack_arrow

        marker = self.store.calls.new_marker()
        packed = pack_arrow(batch, self._compression, self._record_size_max, marker)
        answer = self._append([(partition, each) for each in packed], marker)
        return positions_of(answer.positions)[partition]

    def _pack(self, batch: Batch, tag: str, marker: bytes) -> list[Packed]:
        batch.check()
        return list(pack_batch(batch, tag, self._compression, self._record_size_max, marker))

    def _append(self, records: Sequence[tuple[int, Packed]], marker: bytes) -> AppendResponse:
        """Sends records to the broker, and returns the answer, which names the first number in each partition."""
        partitions = dict.fromkeys(number for number, _ in records)
        since = [WirePosition(number, self._ends.get(number, 0)) for number in partitions]
        sent = [wire_record(number, packed) for number, packed in records]
        return self._send(AppendRequest(self.name, marker, False, False, since, sent))

    def _send(self, request: AppendRequest) -> AppendResponse:
        """Sends an append, again if the answer is lost. Notes how far the partitions reach now, and how many exist."""
        answer = self.store.calls.call(request, repeat=retried)
        for position in answer.positions:
            self._ends[position.partition] = position.number
        if self.store.reads.has_rack:
            self.store.reads.note_put(request, answer)
        if answer.partition_count > self.partition_count:
            self.partition_count = answer.partition_count
        return answer

    # --- What is parked ---

    def _park(self, batch: Batch, tag: str, partition: int | None, due: Due) -> list[Delayed]:
        request = ParkRequest(
            topic=str(self.name),
            due=due.due,
            is_delay=due.is_delay,
            partition=ANY if partition is None else partition,
            records=wire_records(batch, tag),
        )
        ids = self.store.calls.call(request).ids
        return [Delayed(self, *parse_handle_id(id)) for id in ids]

    def scheduled(self, limit: int | None = None) -> Iterator[Scheduled]:
        """Yields the parked messages by due time, at most `limit` of them. They are read page by page."""
        if limit is not None:
            checked_limit(limit)
        return self._scheduled(limit)

    def _scheduled(self, limit: int | None) -> Iterator[Scheduled]:
        after, remaining = "", limit
        while remaining is None or remaining > 0:
            count = READ_LIMIT_DEFAULT if remaining is None else min(remaining, READ_LIMIT_DEFAULT)
            answer = self.store.calls.call(ListParkedRequest(str(self.name), after, count), repeat=same)
            yield from map(_parked, answer.parked, messages_of(answer.messages, self.name))
            if not answer.parked:
                return
            after = answer.parked[-1].id
            remaining = None if remaining is None else remaining - len(answer.parked)

    def cancel(self, handle_id: str) -> bool:
        """Cancels a delayed message by the id of its handle.

        Returns True if it will never be delivered, False if it was delivered already.
        """
        parse_handle_id(handle_id)
        request = CancelParkedRequest(topic=str(self.name), id=handle_id)
        return self.store.calls.call(request).is_cancelled

    def check_bodies(self, bodies: Sequence[bytes]) -> None:
        """Raises TooLarge if one of the bodies is over the limit of the topic."""
        check_sizes(bodies, self._size_max)

    def _check_partition(self, number: int) -> None:
        if number not in range(self.partition_count):
            self.partition(number)

    def route(self, key: bytes | None) -> int:
        """Returns the partition of a message with this key. Without a key, partitions take turns."""
        if key is None:
            return next(self._turn) % self.partition_count
        try:
            return partition_of(key, self.partition_count)
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
        """Puts a message, waits until a consumer answers it with `message.reply`, and returns the answer."""
        return request(self, body, timeout, key, tag, headers)

    # --- Reading by place and time ---

    def last(self, count: int = 1) -> list[Message]:
        """Returns the last `count` messages of all partitions, sorted by time."""
        return last_by_time(self.logs, count)

    def since(self, when: datetime | float | int, *, tag: str | None = None) -> Iterator[Message]:
        """Yields the messages from the time `when` up to the present end, sorted by time over all partitions."""
        return self._merged(when, None, tag)

    def between(
        self, start: datetime | float | int, end: datetime | float | int, *, tag: str | None = None
    ) -> Iterator[Message]:
        """Yields the messages from the time `start` on and before `end`, sorted by time over all partitions."""
        return self._merged(start, end, tag)

    def _merged(
        self, start: datetime | float | int, end: datetime | float | int | None, tag: str | None
    ) -> Iterator[Message]:
        firsts = self.find_time(microseconds(start))
        if end is None:
            ends = {part.partition: part.end for part in self.current_state().partitions}
        else:
            ends = self.find_time(microseconds(end))
        ranges = [Range(self.partition(number), first, ends[number]) for number, first in firsts.items()]
        return merged_by_time(ranges, tag)

    def find_time(self, time_us: int) -> dict[int, int]:
        """Returns, by partition, the number of the first message at or after a time."""
        request = FindTimeRequest(str(self.name), time_us)
        numbers = positions_of(self.store.calls.call(request, repeat=same).positions)
        self.store.reads.note(str(self.name), numbers)
        return numbers

    # --- Consuming ---

    @overload
    def group(self, name: str, *, mode: Literal["stream"] = ..., **options: Unpack[GroupOptions]) -> StreamMember: ...

    @overload
    def group(
        self, name: str, *, mode: Literal["queue"], **options: Unpack[GroupOptions]
    ) -> QueueWorker[RemoteTopic]: ...

    def group(
        self, name: str, *, mode: Literal["stream", "queue"] = "stream", **options: Unpack[GroupOptions]
    ) -> StreamMember | QueueWorker[RemoteTopic]:
        """Returns a member of the group `name`. Creates the group if it does not exist.

        Its members share its messages.
        """
        return open_group(self, name, mode, options)

    def broadcast(
        self, *, tag: str | None = None, start: Where | Mapping[int, int] | None = None, wait: Duration | None = None
    ) -> RemoteBroadcast:
        """Returns a listener for every message that is put from now on, or from `start` on. It stores no position."""
        return RemoteBroadcast(self, tag=tag, start=start, wait=wait)

    def group_settings(self, name: str) -> GroupSettings:
        """Returns the settings of a group. Raises NoSuchGroup if it does not exist."""
        return GroupSettings(**settings_of(self._group_state(name).settings))

    def configure_group(self, name: str, **changes: Unpack[GroupOptions]) -> GroupSettings:
        """Changes settings of a group, for every client, and returns its new settings.

        Running members of a stream group apply the change soon; those of a queue group when they next open the group.
        Raises NoSuchGroup if the group does not exist.
        """
        checked_name("group", name, GROUP_NAME_SIZE_MAX)
        request = ConfigureGroupRequest(str(self.name), name, wire_settings(group_options(changes)))
        answer = self.store.calls.call(request, repeat=same)
        return GroupSettings(**settings_of(answer.settings))

    def describe_group(self, name: str) -> GroupDescription:
        """Returns the progress of a group, without joining it. Raises NoSuchGroup if it does not exist."""
        return group_description(str(self.name), name, self._group_state(name, is_described=True))

    def put_back(self, group: str) -> list[PutBackPart]:
        """Returns which dead letters of a group were put back, by partition of the dead-letter topic."""
        parts = self._group_state(group, is_put_back_wanted=True).put_back
        return [PutBackPart(part.partition, part.start, list(part.numbers)) for part in parts]

    def _group_state(
        self, group: str, *, is_described: bool = False, is_put_back_wanted: bool = False
    ) -> SeeGroupResponse:
        checked_name("group", group, GROUP_NAME_SIZE_MAX)
        request = SeeGroupRequest(str(self.name), group, is_described, is_put_back_wanted)
        return self.store.calls.call(request, repeat=same)

    def dead_letters(self, group: str | None = None) -> Iterator[Letter]:
        """Yields the dead letters of a group, or of all groups, that were not put back, the oldest first."""
        request = ListDeadRequest(topic=str(self.name), group=group, limit=READ_LIMIT_DEFAULT)
        while True:
            answer = self.store.calls.call(request, repeat=same)
            messages = messages_of(answer.messages, answer.topic)
            yield from (letter for letter in map(letter_of, messages) if letter is not None)
            if not messages:
                return
            request.positions = answer.positions

    def delete_group(self, name: str) -> None:
        """Deletes a group with its positions and leases, for all clients. Raises NoSuchGroup if it does not exist."""
        self.store.calls.call(DeleteGroupRequest(topic=str(self.name), group=name))

    # --- Keeping house ---

    def groups(self) -> list[str]:
        """Returns the names of the groups, sorted."""
        return list(self.current_state(is_described=True).groups)

    def describe(self) -> TopicDescription:
        """Returns the current settings, partitions and groups of the topic, without reading a message."""
        state = self.current_state(is_described=True)
        return TopicDescription(
            topic=str(self.name),
            settings=self.settings,
            partitions=[_described(part) for part in state.partitions],
            groups=list(state.groups),
        )

    def refresh(self) -> None:
        """Applies settings that other clients changed, such as added partitions."""
        self.current_state()

    def retire(self) -> None:
        """Removes the blocks that the settings no longer keep."""
        self.store.calls.call(RetireTopicRequest(str(self.name)), repeat=same)

    def configure(self, **changes: Any) -> TopicSettings:
        """Changes settings, for all clients, and returns the new ones."""
        request = ConfigureTopicRequest(str(self.name), wire_settings(changes))
        answer = self.store.calls.call(request, repeat=same)
        self.take_settings(settings_of(answer.settings))
        return self.settings

    def __repr__(self) -> str:
        return f"<RemoteTopic {self.name}, {self.partition_count} partitions, at {self.store.calls.address}>"


def _parked(entry: ListParkedResponseParked, message: Message) -> Scheduled:
    partition = None if entry.partition == ANY else entry.partition
    fields = message.key, message.tag, message.headers, message.id, message.corr_offset
    return Scheduled(entry.id, due_time(entry.due), *fields, partition, message.body)


def _described(part: OpenTopicResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        partition=part.partition,
        first=part.first,
        end=part.end,
        bytes=part.size,
        created=part.created,
        updated=part.updated,
    )
