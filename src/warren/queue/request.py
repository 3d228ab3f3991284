"""Request and reply over two topics. A request names the topic for its answer; the answer's tag is the request's id."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from warren.clock import Duration, seconds_of
from warren.errors import BadInput, NoReply
from warren.limits import NAME_SIZE_MAX, WAIT_S_MAX
from warren.message import Message, TopicReceipt
from warren.queue.state.settings import TopicSettings
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import Page

REPLY_TO: Final = "warren.reply-to"
"""The header that names the topic of the answer. The tag of the answer is the id of the request."""
REPLIES_SUFFIX: Final = ".replies"
REPLIES_AGE_S: Final = 3600.0


class ReadsPages(Protocol):
    """The part of a log, embedded or remote, in which a request waits for its answer."""

    @property
    def end(self) -> int: ...
    def read_page(self, number: int, *, limit: int, tag: TagFilter | None, wait: float) -> Page: ...


class RequestStore(Protocol):
    """The part of a store, embedded or remote, to whose topics answers are put."""

    def has_topic(self, name: str) -> bool: ...
    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> RequestTopic: ...
    def existing_topic(self, name: str) -> RequestTopic: ...


class RequestTopic(Protocol):
    """The part of a topic, embedded or remote, to which requests are put."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> TopicSettings: ...
    @property
    def store(self) -> RequestStore: ...
    @property
    def put(self) -> Callable[..., Any]: ...
    def partition(self, number: int) -> ReadsPages: ...


def reply_headers(headers: Mapping[str, bytes] | None, reply_to: str) -> Mapping[str, bytes]:
    """Returns the headers of a request whose answer goes to the topic `reply_to`."""
    return {**(headers or {}), REPLY_TO: reply_to.encode()}


def request(
    topic: RequestTopic,
    body: bytes,
    timeout: Duration,
    key: bytes | None,
    tag: str,
    headers: Mapping[str, bytes] | None,
) -> Message:
    """Puts a request to `topic`, and returns its answer. Raises NoReply if none comes within `timeout` seconds."""
    question = ask(topic, body, timeout, key, tag, headers)
    page = question.log.read_page(question.number, limit=1, tag=question.filter, wait=question.timeout)
    return question.answer(page)


def checked_timeout_s(duration: Duration) -> float:
    """Returns the seconds that a request waits for its answer. Raises BadInput if that is too long."""
    timeout: object = seconds_of(duration)
    if not isinstance(timeout, int | float) or not 0 < timeout <= WAIT_S_MAX:
        raise BadInput(f"timeout {timeout!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
    return timeout


class Question(NamedTuple):
    """A request that was put. Its answer will be in `log`, from `number` on, and passes the filter."""

    topic: str
    timeout: float
    log: ReadsPages
    number: int
    filter: TagFilter

    def answer(self, page: Page) -> Message:
        """Returns the answer if it is among the messages that were read. Otherwise raises NoReply."""
        if not page.messages:
            raise NoReply(self.topic, self.timeout)
        return page.messages[0]


def ask(
    topic: RequestTopic,
    body: bytes,
    timeout: Duration,
    key: bytes | None,
    tag: str,
    headers: Mapping[str, bytes] | None,
) -> Question:
    """Puts a request to `topic` without waiting for its answer."""
    timeout = checked_timeout_s(timeout)
    replies = _replies(topic)
    log = replies.partition(0)
    id = uuid.uuid4().hex
    question = Question(topic.name, timeout, log, log.end, TagFilter.parse(id))
    topic.put(body, key=key, tag=tag, headers=headers, id=id, reply_to=replies.name)
    return question


def _replies(topic: RequestTopic) -> RequestTopic:
    name = topic.name + REPLIES_SUFFIX
    if len(name) > NAME_SIZE_MAX:
        raise BadInput(
            f"topic {str(topic.name)!r}: its name is too long for the name of its topic of answers, {name!r}"
        )
    if topic.store.has_topic(name):
        return topic.store.topic(name)
    return topic.store.topic(name, durability=topic.settings.durability, retention_age_s=REPLIES_AGE_S)


def answer(topic: RequestTopic, message: Message, body: bytes) -> TopicReceipt:
    """Answers a request that was read from `topic`, and returns the receipt of the answer."""
    reply_to = message.headers.get(REPLY_TO)
    if reply_to is None:
        raise BadInput("the message expects no answer: it was not put with `request` or `reply_to`")
    replies = topic.store.existing_topic(reply_to.decode(errors="replace"))
    receipt: TopicReceipt = replies.put(body, tag=message.id, corr_offset=message.offset)
    return receipt
