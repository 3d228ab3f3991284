"""What can be wrong with what is asked over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors.root import BadInput, WarrenError


class HttpError(WarrenError):
    """Something about a request over HTTP as such."""

    code = "http"


class NoSuchPage(HttpError):
    """Nothing is served at this path."""

    code = "no_such_page"

    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing at {path!r}; /openapi.json tells what there is")
        self.path = path


class WrongMethod(HttpError):
    """The path is served, and not by this method."""

    code = "wrong_method"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"method {method} is not served here; {', '.join(allowed)} are")
        self.method, self.allowed = method, list(allowed)


class NotAcceptedKind(HttpError, BadInput):
    """The body of the request is not of a kind that is read."""

    code = "not_accepted_kind"

    def __init__(self, kind: str, accepted: str) -> None:
        super().__init__(f"content type {kind!r}: expected {accepted}")
        self.kind, self.accepted = kind, accepted


class NoSuchMessage(HttpError):
    """There is no message of this number yet."""

    code = "no_such_message"

    def __init__(self, topic: str, partition: int, number: int) -> None:
        super().__init__(f"partition {partition} of topic {topic!r} has no message {number} yet")
        self.topic, self.partition, self.number = topic, partition, number


class TopicExists(HttpError):
    """There is a topic of this name."""

    code = "topic_exists"

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is a topic {topic!r} already")
        self.topic = topic


class WrongPlace(HttpError):
    """The request was made by a page of another site, or by a name that this machine does not have."""

    code = "wrong_place"

    def __init__(self, header: str, value: str) -> None:
        super().__init__(f"{header} {value!r}: requests are taken from pages of this very address, and from programs")
        self.header, self.value = header, value


class Stopping(HttpError):
    """The broker is about to end, and takes nothing more."""

    code = "stopping"
    retryable = True

    def __init__(self) -> None:
        super().__init__("the broker is stopping")


class TooMany(HttpError):
    """More is under way than the broker takes at a time."""

    code = "too_many"
    retryable = True

    def __init__(self, what: str, count_max: int) -> None:
        super().__init__(f"there are {count_max} {what} already; try again")
        self.what, self.count_max = what, count_max
