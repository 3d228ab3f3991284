"""Groups of a broker's topic: stream members and queue workers, over the network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, overload

from warren.api.values import Where
from warren.client.handle import Handle
from warren.client.net.call_steps import Steps, run, stepwise
from warren.client.read_serials import ReadSerials
from warren.client.remote_view import RemoteTopicView
from warren.clock import Duration, microseconds, seconds_of
from warren.errors import (
    BadInput,
    GroupClosed,
    LeaseLost,
    MessageTooLarge,
    NotOwner,
    StoreClosed,
    WarrenError,
)
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Edge, Message, named
from warren.protocol.native.calls import ANY, positions_of, settings_of, wire_positions, wire_settings
from warren.protocol.native.records import messages_of
from warren.protocol.native_messages import (
    CommitGroupRequest,
    DescribeGroupRequest,
    DescribeGroupResponse,
    OpenGroupRequest,
    ReadGroupResponse,
    RedriveRequest,
    SeeGroupResponse,
    SeekGroupRequest,
    SettleRequest,
    TakeRequest,
    TakeResponse,
    WireLeases,
)
from warren.queue.group_description import GroupDescription, GroupPartition
from warren.queue.groups import setting_value
from warren.queue.state.group_settings import GROUP_OPTIONS, LEASE_S_MAX, GroupSettings
from warren.queue.state.waits import checked_delay_s
from warren.queue.stream.rotation import checked_limit, checked_wait_s

T = TypeVar("T", bound=RemoteTopicView)
ITERATION_WAIT_S: Final = 1.0
ITERATION_LIMIT: Final = 100


def open_group(topic: T, name: str, mode: str, options: Mapping[str, Any]) -> StreamMember | QueueWorker[T]:
    """Returns a member of the group `name` of a broker's topic. Creates the group if it does not exist."""
    settings = group_options(options)
    return QueueWorker(topic, name, settings) if mode == "queue" else StreamMember(topic, name, mode, settings)


def group_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a group as they are sent. Raises BadInput for an unknown one."""
    GROUP_OPTIONS.check_names(options)
    return {option: setting_value(option, value) for option, value in options.items()}


def group_description(topic: str, group: str, state: SeeGroupResponse) -> GroupDescription:
    """Returns a group as the broker describes it to a client that has not joined it."""
    settings = GroupSettings(**settings_of(state.settings))
    following, ends, lag = positions_of(state.positions), positions_of(state.ends), positions_of(state.lag)
    is_stream = settings.mode == "stream"
    return GroupDescription(
        topic=topic,
        group=group,
        settings=settings,
        members=list(state.members) if is_stream else None,
        leased=None if is_stream else state.in_flight,
        partitions=[
            GroupPartition(partition=number, next=following.get(number), end=end, behind=lag[number])
            for number, end in ends.items()
        ],
    )


class RemoteMember:
    """What members of stream groups and of queue groups share. Any thread may use them."""

    def __init__(self, topic: RemoteTopicView, name: str, mode: str, options: Mapping[str, Any]) -> None:
        self.topic, self.name = topic, name
        settings = wire_settings(options)
        self.handle = Handle(
            topic.store.calls, lambda number: OpenGroupRequest(number, str(topic.name), name, mode, settings)
        )
        self.settings = GroupSettings(**settings_of(self.handle.opened.settings))
        self._is_closed = False

    def _check_open(self) -> None:
        if self.topic.store.is_closed:
            raise StoreClosed(self.topic.store.calls.address)
        if self._is_closed:
            raise GroupClosed(self.topic.name, self.name)

    def _messages(self, answer: ReadGroupResponse | TakeResponse) -> list[Message]:
        return messages_of(answer.messages, self.topic.name)

    def _described(self, *, is_dead_wanted: bool = False) -> DescribeGroupResponse:
        self._check_open()
        return self.handle.call(DescribeGroupRequest(self.handle.number, is_dead_wanted))

    def lag(self) -> dict[int, int]:
        """Returns, by partition, how many messages the group has not finished.

        Messages that its filter omits count too.
        """
        return positions_of(self._described().lag)

    def close(self) -> None:
        """Leaves the group. Closing twice does no harm."""
        if not self._is_closed:
            self._is_closed = True
            self.handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.topic.name}{' closed' if self._is_closed else ''}>"


def _later(messages: Sequence[Message], more: Sequence[Message]) -> list[Message]:
    """Returns those of `more` that come after `messages`. A member that joined again may receive
    some messages twice.
    """
    last = {message.partition: message.number for message in messages}
    return [message for message in more if message.number > last.get(message.partition, -1)]


class StreamMember(RemoteMember):
    """A member of a stream group at a broker. Any thread may use it.

    If all connections are lost, the member joins again. Messages that were read and not committed are then delivered
    again, to this member or to the new owner of the partition.
    """

    def __init__(self, topic: RemoteTopicView, name: str, mode: str, options: Mapping[str, Any]) -> None:
        super().__init__(topic, name, mode, options)
        self._serials = ReadSerials()
        self._mutex = threading.RLock()
        self._ahead: list[Message] = []
        """Messages that iteration has fetched and not yet yielded, in reverse order."""
        self._deferred_error: MessageTooLarge | None = None
        """The error that the last read met after some messages.

        The read returned the messages; the next read raises this.
        """
        self._owned: list[int] = []
        self._read_in: int | None = None
        """The value of `openings` of the handle when the first uncommitted message was read."""

    # --- Reading ---

    @stepwise
    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> Steps[list[Message]]:
        """Returns up to `limit` messages of the partitions that this member owns, ordered within each partition.

        If there is none, waits up to `wait` seconds for one. Raises MessageTooLarge if the next message is too large
        for any answer of the broker; `seek` skips it.
        """
        checked_limit(limit)
        wait_s = checked_wait_s(wait)
        self._check_open()
        if self._deferred_error is not None:
            error, self._deferred_error = self._deferred_error, None
            raise error
        with self._mutex:
            count = min(limit, len(self._ahead))
            messages = [self._ahead.pop() for _ in range(count)]
        while len(messages) < limit:
            try:
                more = yield from self._reading(limit - len(messages), 0.0 if messages else wait_s)
            except WarrenError as error:
                # Messages that were read come first, because the broker has moved past them. The next call meets the
                # error again, unless other partitions have messages: then the broker reports it only once.
                if not messages:
                    raise
                self._deferred_error = error if isinstance(error, MessageTooLarge) else None
                break
            if not more:
                break
            messages += _later(messages, more)
        return messages

    def _reading(self, limit: int, wait_s: float) -> Steps[list[Message]]:
        with self._serials.reading(self.handle.number, limit) as request:
            answer = yield from self.handle.waiting(
                request, wait_s, lambda answer: bool(answer.messages.records), repeat=self._serials.next_attempt
            )
        self._owned = list(answer.owned)
        messages = self._messages(answer)
        if messages and self._read_in is None:
            self._read_in = self.handle.openings
        return messages

    def _repeat_unanswered(self) -> None:
        """Reads again what an answer that was lost may have had. Called before the broker's positions are used."""
        while self._serials.has_unanswered:
            messages = run(self._reading(ITERATION_LIMIT, 0.0))
            with self._mutex:
                self._ahead = messages[::-1] + self._ahead

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the member is closed. `commit` commits up to the last message that was yielded."""
        while not self._is_closed:
            with self._mutex:
                message = self._ahead.pop() if self._ahead else None
            if message is not None:
                yield message
                continue
            try:
                messages = run(self._reading(ITERATION_LIMIT, ITERATION_WAIT_S))
            except (GroupClosed, StoreClosed):
                return
            with self._mutex:
                self._ahead = messages[::-1]

    def unread(self, messages: Sequence[Message]) -> None:
        """Returns these messages, which came from the latest `read`, again in the next `read`."""
        with self._mutex:
            self._ahead += reversed(messages)

    # --- Committing and going elsewhere ---

    def delivered_ends(self) -> dict[int, int] | None:
        """Returns, by partition, the number after the last message that the caller got; None if the caller got all of
        them.
        """
        self._repeat_unanswered()
        with self._mutex:
            if not self._ahead:
                return None
            next_numbers = {message.partition: message.number for message in self._ahead}
        read = positions_of(self._described().read)
        return {partition: next_numbers.get(partition, number) for partition, number in read.items()}

    def commit(self, positions: Mapping[int, int] | None = None) -> dict[int, int]:
        """Commits everything that was read, or everything before `positions`.

        Returns the committed position of each partition.
        """
        self._check_open()
        ends = self.delivered_ends() if positions is None else positions
        positions_sent = None if ends is None else wire_positions(ends)
        request = CommitGroupRequest(handle=self.handle.number, positions=positions_sent)
        committed = positions_of(self.handle.call(request, repeat=None).positions)
        self._read_in = None
        return committed

    def check_read(self) -> None:
        """Raises NotOwner if this member has joined again since it read, because other members may have read the same
        messages.
        """
        if self._read_in not in (None, self.handle.openings):
            raise NotOwner(self.topic.name, self.name, self._owned)

    def claimed(self) -> None:
        """Notes that the messages read so far are part of a transaction."""
        self._read_in = None

    def seek(self, to: Where, partition: int | None = None) -> dict[int, int]:
        """Moves to a number, to the first message at or after a time, to START or to END.

        Returns the number by partition.
        """
        self._check_open()
        self._repeat_unanswered()
        request = SeekGroupRequest(handle=self.handle.number, partition=ANY if partition is None else partition)
        if isinstance(to, Edge):
            request.to = to.value
        elif isinstance(to, bool) or not isinstance(to, int | float | datetime):
            raise BadInput(f"{to!r}: expected a number, a time, START or END")
        elif isinstance(to, int):
            request.to, request.where = "number", to
        else:
            request.to, request.where = "time", microseconds(to)
        numbers = positions_of(self.handle.call(request, repeat=None).positions)
        self._deferred_error = None
        with self._mutex:
            self._ahead = [message for message in self._ahead if message.partition not in numbers]
        return numbers

    def rewind(self) -> None:
        """Moves back to the committed positions, so that messages that were read and not committed are read again."""
        self._check_open()
        self.handle.call(SeekGroupRequest(handle=self.handle.number, to="rewind"), repeat=None)
        self._serials.forget_unanswered()
        self._deferred_error = None
        self._read_in = None
        with self._mutex:
            self._ahead = []

    # --- Where the group stands ---

    @property
    def id(self) -> str:
        """Returns the id of this member."""
        return self.handle.opened.member

    @property
    def partitions(self) -> list[int]:
        """Returns the partitions that this member owns now."""
        return list(self._described().owned)

    def owned(self) -> list[int]:
        """Returns the partitions that this member owned at the last read, without asking the broker."""
        return self._owned

    def members(self) -> list[str]:
        """Returns the ids of all live members of the group."""
        return list(self._described().members)

    def positions(self) -> dict[int, int]:
        """Returns, by partition, the number of the message that the group gives next."""
        return positions_of(self._described().positions)

    def position(self, partition: int) -> int:
        """Returns the number of the message that the group gives next in one partition."""
        self.topic.partition(partition)
        return self.positions()[partition]


class QueueWorker(RemoteMember, Generic[T]):
    """A worker of a queue group at a broker. Any thread may use it.

    Messages that it took and has not settled go to other workers when the client closes or disappears.
    """

    def __init__(self, topic: T, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(topic, name, "queue", options)
        self.topic: T = topic

    @overload
    def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    @stepwise  # type: ignore[misc]  # what it gives says nothing of `self`
    def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Steps[Message | list[Message] | None]:
        """Leases one message, or up to `limit` messages. If there is none, waits up to `wait` seconds for one.

        The leases are renewed while the caller refers to one of the messages and this worker is open, for up to
        `renew_s_max` of the settings. With `renew=False` they end after `lease_s`.

        Raises MessageTooLarge if a message is too large for any answer of the broker. This worker then holds its lease
        and settles it with `reject(error.message)` or `ack(error.message)`.
        """
        self._check_open()
        count = 1 if limit is None else checked_limit(limit)
        try:
            answer = yield from self.handle.waiting(
                TakeRequest(handle=self.handle.number, limit=count),
                checked_wait_s(wait),
                lambda answer: bool(answer.messages.records),
                repeat=None,
            )
        except MessageTooLarge as error:
            error.message = named(self.topic.name, error.partition, error.number, error.attempt)
            raise
        messages = self._messages(answer)
        if messages and renew and self.settings.renew_s_max:
            messages = self.topic.store.renewals.hold(
                messages,
                self.name,
                self._renew,
                lease_s=self.settings.lease_s,
                renew_s_max=self.settings.renew_s_max,
            )
        if limit is None:
            return messages[0] if messages else None
        return messages

    def _renew(self, messages: Sequence[Message]) -> Sequence[tuple[int, int]]:
        try:
            self._settle("extend", messages, self.settings.lease_s)
        except LeaseLost as error:
            return error.places
        return ()

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the group or its store is closed. The caller acknowledges each of them."""
        while not self._is_closed:
            try:
                message = self.take(wait=ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
            if message is not None:
                yield message

    def ack(self, message: Message) -> None:
        """Marks the message as done, permanently. Raises LeaseLost if this worker no longer holds its lease."""
        self.ack_many((message,))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Marks these messages as done, with one commit for all."""
        self._settle("ack", messages)

    def nack(self, message: Message, delay: Duration | None = None, reason: str = "") -> None:
        """Returns a message that failed to the group.

        A worker gets it again after `delay` seconds, or after the group's backoff.
        """
        self._settle("nack", (message,), ANY if delay is None else checked_delay_s(delay), reason)

    def reject(self, message: Message, reason: str = "") -> None:
        """Makes the message a dead letter, with the reason. No worker gets it again."""
        self._settle("reject", (message,), reason=reason)

    def extend(self, message: Message, seconds: Duration) -> None:
        """Makes the lease end `seconds` from now. Raises LeaseLost if this worker no longer holds it."""
        self.extend_many((message,), seconds)

    def extend_many(self, messages: Sequence[Message], seconds: Duration) -> None:
        """Makes the leases of these messages end `seconds` from now. The client stops renewing them.

        Raises LeaseLost if this worker no longer holds some of them; the others are extended nevertheless.
        """
        lease_s: object = seconds_of(seconds)
        if not isinstance(lease_s, int | float) or not 0 <= lease_s <= LEASE_S_MAX:
            raise BadInput(f"seconds {lease_s!r}: expected 0 to {LEASE_S_MAX:g}")
        self.topic.store.renewals.drop(self.topic.name, self.name, messages)
        self._settle("extend", messages, lease_s)

    def _settle(self, action: str, messages: Sequence[Message], seconds: float = ANY, reason: str = "") -> None:
        self._check_open()
        leases, handle = wire_leases(self.topic, messages), self.handle.number
        request = SettleRequest(handle=handle, action=action, places=leases, seconds=float(seconds), reason=reason)
        self.handle.call(request, repeat=None)

    @property
    def dead(self) -> T:
        """Returns the topic of the dead letters. Creates it if it does not exist."""
        return self.topic.store.topic(self._described(is_dead_wanted=True).dead)

    def redrive(self, limit: int | None = None, *, numbers: Mapping[int, Sequence[int]] | None = None) -> int:
        """Puts this group's dead letters, or up to `limit` more of them, back into their topics.

        Returns how many.
        """
        self._check_open()
        if limit is not None and numbers is not None:
            raise BadInput("pass either limit or numbers")
        if limit is not None:
            checked_limit(limit)
        places = [(partition, number) for partition, each in (numbers or {}).items() for number in each]
        if numbers is not None and not places:
            return 0
        request = RedriveRequest(
            handle=self.handle.number,
            limit=ANY if limit is None else limit,
            places=WireLeases([place[0] for place in places], [place[1] for place in places]),
        )
        return self.handle.call(request, repeat=None).count

    def in_flight(self) -> int:
        """Returns how many messages are leased by workers or held by a transaction."""
        return self._described().in_flight


def wire_leases(topic: RemoteTopicView, messages: Sequence[Message]) -> WireLeases:
    """Returns the leases of the messages as they are sent. Raises BadInput for a message of another topic."""
    message: Any
    for message in messages:
        if not isinstance(message, Message) or message.topic != topic.name:
            raise BadInput(f"{message!r} is not a message of topic {str(topic.name)!r}")
    return WireLeases(
        [message.partition for message in messages],
        [message.number for message in messages],
        [message.attempt for message in messages],
    )
