"""Errors of requests over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors.root import BadInput, TooLarge, WarrenError


class HttpError(WarrenError):
    """An error of an HTTP request as such."""

    code = "http"


class NoSuchPage(HttpError):
    """Nothing is served at this path."""

    code = "no_such_page"

    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing at {path!r}; /openapi.json lists the existing paths")
        self.path = path


class WrongMethod(HttpError):
    """The path is served, but not with this method."""

    code = "wrong_method"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"method {method} is not allowed here; use {' or '.join(allowed)}")
        self.method, self.allowed = method, list(allowed)


class NotAcceptedKind(HttpError, BadInput):
    """The content type of the request is not supported."""

    code = "not_accepted_kind"

    def __init__(self, kind: str, accepted: str) -> None:
        super().__init__(f"content type {kind!r}: expected {accepted}")
        self.kind, self.accepted = kind, accepted


class NoSuchMessage(HttpError):
    """The message with this number does not exist yet."""

    code = "no_such_message"

    def __init__(self, topic: str, partition: int, number: int) -> None:
        super().__init__(f"partition {partition} of topic {topic!r} has no message {number} yet")
        self.topic, self.partition, self.number = topic, partition, number


class TooLargeForHttp(HttpError, TooLarge):
    """The next message that a group would hand out is too large for a reply over HTTP.

    It was returned to the group uncounted.
    """

    code = "too_large_for_http"

    def __init__(self, topic: str, group: str, partition: int, number: int, size: int, size_max: int) -> None:
        WarrenError.__init__(
            self,
            f"message {number} of partition {partition} of topic {topic!r} has {size} bytes, and a reply over HTTP "
            f"holds {size_max}; it waits for a worker of group {group!r} that uses another protocol. To make it a dead "
            f'letter, POST {{"partition": {partition}, "number": {number}}} to '
            f"/v1/topics/{topic}/groups/{group}/reject",
        )
        self.topic, self.group, self.partition, self.number = topic, group, partition, number
        self.size, self.size_max = size, size_max


class TopicExists(HttpError):
    """A topic with this name exists."""

    code = "topic_exists"

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is a topic {topic!r} already")
        self.topic = topic


class WrongPlace(HttpError):
    """The request comes from a page of another site, or names a host that this machine does not have."""

    code = "wrong_place"

    def __init__(self, header: str, value: str) -> None:
        super().__init__(
            f"{header} {value!r}: only pages of this address, and programs other than browsers, may send requests"
        )
        self.header, self.value = header, value


class Stopping(HttpError):
    """The broker is stopping, and accepts no more requests."""

    code = "stopping"
    retryable = True

    def __init__(self) -> None:
        super().__init__("the broker is stopping")


class TooMany(HttpError):
    """The broker's limit for requests at the same time is reached."""

    code = "too_many"
    retryable = True

    def __init__(self, what: str, count_max: int) -> None:
        super().__init__(f"there are {count_max} {what} already; try again")
        self.what, self.count_max = what, count_max
