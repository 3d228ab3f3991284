"""Request and reply over two topics: a request says where its answer goes, and the answer says what it answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from warren.config import NAME_SIZE_MAX, WAIT_S_MAX
from warren.errors import BadInput, NoReply
from warren.message import Message, TopicReceipt
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.queue.topic import Topic

REPLY_TO: Final = "warren.reply-to"
"""The header that names the topic of the answer. The answer's tag is the id of the request."""
REPLIES_SUFFIX: Final = ".replies"
REPLIES_AGE_S: Final = 3600.0


def reply_headers(headers: Mapping[str, bytes] | None, reply_to: str) -> Mapping[str, bytes]:
    """The headers of a request whose answer goes to the topic `reply_to`."""
    return {**(headers or {}), REPLY_TO: reply_to.encode()}


def request(
    topic: Topic, body: bytes, timeout: float, key: bytes | None, tag: str, headers: Mapping[str, bytes] | None
) -> Message:
    """Put a request to `topic`, and wait for its answer; NoReply after `timeout` seconds."""
    if not 0 < timeout <= WAIT_S_MAX:
        raise BadInput(f"timeout {timeout!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
    replies = _replies(topic)
    log = replies.partition(0)
    id = uuid.uuid4().hex
    number, tag_filter = log.end, TagFilter.parse(id)
    topic.put(body, key=key, tag=tag, headers=headers, id=id, reply_to=replies.name)
    page = log.read_page(number, limit=1, tag=tag_filter, wait=timeout)
    if not page.messages:
        raise NoReply(topic.name, timeout)
    return page.messages[0]


def _replies(topic: Topic) -> Topic:
    name = topic.name + REPLIES_SUFFIX
    if len(name) > NAME_SIZE_MAX:
        raise BadInput(f"topic {str(topic.name)!r}: its name is too long for a topic of answers, {name!r}")
    if topic.store.has_topic(name):
        return topic.store.topic(name)
    return topic.store.topic(name, durability=topic.settings.durability, retention_age_s=REPLIES_AGE_S)


def answer(topic: Topic, message: Message, body: bytes) -> TopicReceipt:
    """Answer a request that was read from `topic`."""
    reply_to = message.headers.get(REPLY_TO)
    if reply_to is None:
        raise BadInput("nobody waits for an answer: the message was not put with `request` or `reply_to`")
    replies = topic.store.existing_topic(reply_to.decode(errors="replace"))
    return replies.put(body, tag=message.id, corr_offset=message.offset)
