"""Groups of a topic of a broker: what a member or a worker does, over the network."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, overload

from warren.client.handle import Handle
from warren.client.steps import Steps, run, stepwise
from warren.clock import Duration, microseconds, seconds_of
from warren.config import READ_LIMIT_DEFAULT
from warren.errors import BadInput, GroupClosed, LeaseLost, MessageTooLarge, NotOwner, StoreClosed, WarrenError
from warren.message import Message, named
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY, position_values, positions_of, setting_values, settings_of
from warren.protocol.own_records import messages_of
from warren.protocol.own_schemas import OwnKey
from warren.queue.group_settings import LEASE_S_MAX, SETTING_NAMES, GroupSettings
from warren.queue.groups import setting_value
from warren.queue.positions import Where
from warren.queue.rotation import checked_limit, checked_wait_s
from warren.queue.waiting import checked_delay_s
from warren.storage.reader import Place

if TYPE_CHECKING:
    from warren.client.topic import RemoteTopic

ITERATION_WAIT_S: Final = 1.0
ITERATION_LIMIT: Final = 100


def open_group(topic: RemoteTopic, name: str, mode: str, options: Mapping[str, Any]) -> StreamMember | QueueWorker:
    """A member of the group `name` of a topic of a broker, which is made where there is none."""
    given = group_options(options)
    return QueueWorker(topic, name, given) if mode == "queue" else StreamMember(topic, name, mode, given)


def group_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group in the form in which they are sent. Raises BadInput for one that does not exist."""
    for option in options:
        if option not in SETTING_NAMES:
            raise BadInput(f"unknown option {option!r}; a group has mode, {', '.join(SETTING_NAMES)}")
    return {option: setting_value(option, value) for option, value in options.items()}


class Member:
    """What members of groups of both modes have in common. Any thread may use them."""

    def __init__(self, topic: RemoteTopic, name: str, mode: str, options: Mapping[str, Any]) -> None:
        self.topic, self.name = topic, name
        values = {
            "topic": str(topic.name),
            "group": name,
            "mode": mode,
            "settings": setting_values(options),
        }
        self.handle = Handle(topic.store.calls, OwnKey.OPEN_GROUP, values)
        self.settings = GroupSettings(**settings_of(self.handle.opened.settings))
        self._is_closed = False

    def _check_open(self) -> None:
        if self.topic.store.is_closed:
            raise StoreClosed(self.topic.store.calls.address)
        if self._is_closed:
            raise GroupClosed(self.topic.name, self.name)

    def _messages(self, answer: Fields) -> list[Message]:
        return messages_of(answer.messages, self.topic.name)

    def _described(self, **asked: Any) -> Fields:
        self._check_open()
        return self.handle.call(OwnKey.DESCRIBE_GROUP, asked)

    def lag(self) -> dict[int, int]:
        """By partition, how many messages were put that the group is not done with, with those its filter omits."""
        return positions_of(self._described().lag)

    def close(self) -> None:
        """Leave the group. Closing twice does no harm."""
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
    """Those of `more` that follow on `messages`: a member that joined anew in between is given some again."""
    last = {message.partition: message.number for message in messages}
    return [message for message in more if message.number > last.get(message.partition, -1)]


class StreamMember(Member):
    """A member of a stream group at a broker. Any thread may use it.

    Where all connections were lost it joins anew: what was read and not committed is then read again, by whoever owns
    the partition.
    """

    def __init__(self, topic: RemoteTopic, name: str, mode: str, options: Mapping[str, Any]) -> None:
        super().__init__(topic, name, mode, options)
        self._serials = itertools.count()
        self._mutex = threading.RLock()
        self._ahead: list[Message] = []
        """What iterating has fetched and not given, the next one last."""
        self._untold: MessageTooLarge | None = None
        """An error that the last read met behind messages, which it gave instead."""
        self._owned: list[int] = []
        self._read_in: int | None = None
        """How often the handle had been opened when something was read that is not committed."""

    # --- Reading ---

    @stepwise
    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> Steps[list[Message]]:
        """Up to `limit` messages of the partitions that this member owns, ordered within each partition.

        Raises MessageTooLarge if the next one fits into no answer of the broker: `seek` goes past it.
        """
        checked_limit(limit)
        wait_s = checked_wait_s(wait)
        self._check_open()
        if self._untold is not None:
            error, self._untold = self._untold, None
            raise error
        with self._mutex:
            count = min(limit, len(self._ahead))
            messages = [self._ahead.pop() for _ in range(count)]
        while len(messages) < limit:
            try:
                more = yield from self._reading(limit - len(messages), 0.0 if messages else wait_s)
            except WarrenError as error:
                # First what was read: the broker has moved past it. The next call meets the error again, but for one
                # that the broker tells once as long as other partitions have messages.
                if not messages:
                    raise
                self._untold = error if isinstance(error, MessageTooLarge) else None
                break
            if not more:
                break
            messages += _later(messages, more)
        return messages

    def _reading(self, limit: int, wait_s: float) -> Steps[list[Message]]:
        values = {"limit": limit, "serial": next(self._serials)}
        answer = yield from self.handle.waiting(
            OwnKey.READ_GROUP, values, wait_s, lambda found: bool(found.messages.records), repeat=_read_again
        )
        self._owned = list(answer.owned)
        messages = self._messages(answer)
        if messages and self._read_in is None:
            self._read_in = self.handle.openings
        return messages

    def __iter__(self) -> Iterator[Message]:
        """Message after message, without end, until the member is closed. `commit` commits up to the one given last."""
        while not self._is_closed:
            with self._mutex:
                message = self._ahead.pop() if self._ahead else None
            if message is not None:
                yield message
                continue
            try:
                found = run(self._reading(ITERATION_LIMIT, ITERATION_WAIT_S))
            except (GroupClosed, StoreClosed):
                return
            with self._mutex:
                self._ahead = found[::-1]

    def unread(self, messages: Sequence[Message]) -> None:
        """These, which the latest `read` gave, are given again."""
        with self._mutex:
            self._ahead += reversed(messages)

    # --- Committing and going elsewhere ---

    def given(self) -> dict[int, int] | None:
        """By partition how far messages were given; None where all that was read was."""
        with self._mutex:
            if not self._ahead:
                return None
            kept = {message.partition: message.number for message in self._ahead}
        read = positions_of(self._described().read)
        return {partition: kept.get(partition, number) for partition, number in read.items()}

    def commit(self, positions: Mapping[int, int] | None = None) -> dict[int, int]:
        """What was read is done with, or what comes before `positions`; by partition, what was committed."""
        self._check_open()
        wanted = self.given() if positions is None else positions
        values = {"positions": None if wanted is None else position_values(wanted)}
        done = positions_of(self.handle.call(OwnKey.COMMIT_GROUP, values, repeat=None).positions)
        self._read_in = None
        return done

    def check_read(self) -> None:
        """NotOwner where this member has joined anew since it read: others may have read the same."""
        if self._read_in not in (None, self.handle.openings):
            raise NotOwner(self.topic.name, self.name, self._owned)

    def claimed(self) -> None:
        """What was read is part of a transaction."""
        self._read_in = None

    def seek(self, to: Where, partition: int | None = None) -> dict[int, int]:
        """Go to a number, to the first message at or after a time, to START or to END; by partition, the number."""
        self._check_open()
        values: dict[str, Any] = {"partition": ANY if partition is None else partition}
        if isinstance(to, Place):
            values |= {"to": to.value}
        elif isinstance(to, bool) or not isinstance(to, int | float | datetime):
            raise BadInput(f"{to!r}: expected a number, a time, START or END")
        elif isinstance(to, int):
            values |= {"to": "number", "where": to}
        else:
            values |= {"to": "time", "where": microseconds(to)}
        numbers = positions_of(self.handle.call(OwnKey.SEEK_GROUP, values, repeat=None).positions)
        self._untold = None
        with self._mutex:
            self._ahead = [message for message in self._ahead if message.partition not in numbers]
        return numbers

    def rewind(self) -> None:
        """What was read and not committed is read again."""
        self._check_open()
        self.handle.call(OwnKey.SEEK_GROUP, {"to": "rewind"}, repeat=None)
        self._untold = None
        self._read_in = None
        with self._mutex:
            self._ahead = []

    # --- Where the group stands ---

    @property
    def id(self) -> str:
        """The id of this member."""
        return str(self.handle.opened.member)

    @property
    def partitions(self) -> list[int]:
        """The partitions that this member owns now."""
        return list(self._described().owned)

    def owned(self) -> list[int]:
        """The same as of the last read, without asking the broker."""
        return self._owned

    def members(self) -> list[str]:
        """The ids of all members of the group that live."""
        return list(self._described().members)

    def positions(self) -> dict[int, int]:
        """By partition, the number that the group gives next."""
        return positions_of(self._described().positions)

    def position(self, partition: int) -> int:
        """The number that the group gives next in one partition."""
        self.topic.partition(partition)
        return self.positions()[partition]


class QueueWorker(Member):
    """A worker of a queue group at a broker. Any thread may use it.

    What it took and has not settled is given to others when the client is closed or gone.
    """

    def __init__(self, topic: RemoteTopic, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(topic, name, "queue", options)

    @overload
    def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    @stepwise  # type: ignore[misc]  # what it gives says nothing of `self`
    def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Steps[Message | list[Message] | None]:
        """Leases a message, or up to `limit` of them. If there is none, waits up to `wait` seconds for one.

        The leases are renewed while the caller refers to one of the messages and this worker is open, for up to
        `renew_s_max` of the settings; with `renew=False` they run out after `lease_s`.

        Raises MessageTooLarge if a message fits into no answer of the broker: it is leased to this worker, which
        settles it with `reject(error.message)` or `ack(error.message)`.
        """
        self._check_open()
        count = 1 if limit is None else checked_limit(limit)
        try:
            answer = yield from self.handle.waiting(
                OwnKey.TAKE,
                {"limit": count},
                checked_wait_s(wait),
                lambda found: bool(found.messages.records),
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
        """Message after message, without end, until the group or its store is closed. Each is yours to acknowledge."""
        while not self._is_closed:
            try:
                message = self.take(wait=ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
            if message is not None:
                yield message

    def ack(self, message: Message) -> None:
        """The message is done with, for good. LeaseLost where it is leased no more."""
        self.ack_many((message,))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """These messages are done with, with one commit for all."""
        self._settle("ack", messages)

    def nack(self, message: Message, delay: Duration | None = None, reason: str = "") -> None:
        """The message failed: it is handed out again after `delay` seconds, or after the group's backoff."""
        self._settle("nack", (message,), ANY if delay is None else checked_delay_s(delay), reason)

    def reject(self, message: Message, reason: str = "") -> None:
        """The message is not to be handed out again: it becomes a dead letter, with the reason."""
        self._settle("reject", (message,), reason=reason)

    def extend(self, message: Message, seconds: Duration) -> None:
        """The lease runs out `seconds` from now. Raises LeaseLost if the message is not leased as it was taken."""
        self.extend_many((message,), seconds)

    def extend_many(self, messages: Sequence[Message], seconds: Duration) -> None:
        """The leases of these messages run out `seconds` from now, and are not renewed any more.

        Raises LeaseLost if some are no longer leased as they were taken; the others are extended nevertheless.
        """
        lease_s: object = seconds_of(seconds)
        if not isinstance(lease_s, int | float) or not 0 <= lease_s <= LEASE_S_MAX:
            raise BadInput(f"seconds {lease_s!r}: expected 0 to {LEASE_S_MAX:g}")
        self.topic.store.renewals.drop(self.topic.name, self.name, messages)
        self._settle("extend", messages, lease_s)

    def _settle(self, action: str, messages: Sequence[Message], seconds: float = ANY, reason: str = "") -> None:
        self._check_open()
        values = {
            "action": action,
            "places": place_values(self.topic, messages),
            "seconds": float(seconds),
            "reason": reason,
        }
        self.handle.call(OwnKey.SETTLE, values, repeat=None)

    @property
    def dead(self) -> RemoteTopic:
        """The topic of the dead letters, made where there is none."""
        return self.topic.store.topic(self._described(is_dead_wanted=True).dead)

    def redrive(self, limit: int | None = None, *, numbers: Mapping[int, Sequence[int]] | None = None) -> int:
        """Put this group's dead letters, or up to `limit` more of them, back where they came from; how many."""
        self._check_open()
        if limit is not None and numbers is not None:
            raise BadInput("give either limit or numbers")
        if limit is not None:
            checked_limit(limit)
        places = [(partition, number) for partition, each in (numbers or {}).items() for number in each]
        if numbers is not None and not places:
            return 0
        values = {
            "limit": ANY if limit is None else limit,
            "places": {"partitions": [place[0] for place in places], "numbers": [place[1] for place in places]},
        }
        return int(self.handle.call(OwnKey.REDRIVE, values, repeat=None).count)

    def in_flight(self) -> int:
        """How many messages somebody has: leased, or held by a transaction."""
        return int(self._described().in_flight)


def place_values(topic: RemoteTopic, messages: Sequence[Message]) -> Values:
    """Which messages are meant; BadInput for what is of another topic."""
    message: Any
    for message in messages:
        if not isinstance(message, Message) or message.topic != topic.name:
            raise BadInput(f"{message!r} is no message of topic {str(topic.name)!r}")
    return {
        "partitions": [message.partition for message in messages],
        "numbers": [message.number for message in messages],
        "attempts": [message.attempt for message in messages],
    }


def _read_again(values: Values) -> Values:
    return {**values, "is_retry": True}
