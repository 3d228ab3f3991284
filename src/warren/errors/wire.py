"""What can be wrong with what comes over the network."""

from __future__ import annotations

from warren.errors.root import WarrenError


class ProtocolError(WarrenError):
    """What the other side of a connection sent cannot be taken."""

    code = "protocol"


class BadFrame(ProtocolError):
    """The size before a frame is negative, or over the limit. What follows cannot be made out: the connection ends."""

    code = "bad_frame"

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"a frame of {size} bytes; from 0 to {size_max} are taken")
        self.size, self.size_max = size, size_max


class MalformedRequest(ProtocolError):
    """The bytes are not what their API key and version say."""

    code = "malformed_request"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason


class UnsupportedRequest(ProtocolError):
    """An API key that is not served, or not in this version."""

    code = "unsupported_request"

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"version {version} of API key {api_key} is not served; ApiVersions tells what is")
        self.api_key, self.version = api_key, version


class BadBatch(ProtocolError):
    """A record batch that a producer sent does not check. Nothing of it was stored."""

    code = "bad_batch"

    def __init__(self, reason: str) -> None:
        super().__init__(f"a record batch that cannot be taken: {reason}")
        self.reason = reason


class BadRecord(ProtocolError):
    """A record that a producer sent cannot be taken, and with it its batch. `row` is its place in the batch."""

    code = "bad_record"

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"record {row} of the batch cannot be taken: {reason}")
        self.row, self.reason = row, reason


class KafkaMissing(ProtocolError):
    """What the broker needs of kafka-python is not installed."""

    code = "kafka_missing"

    def __init__(self, what: str) -> None:
        super().__init__(f"kafka-python's description of {what} is not there; install `warren[broker]`")
        self.what = what


class NotAuthenticated(ProtocolError):
    """A request of a client that has not logged in, to a broker that wants a user."""

    code = "not_authenticated"

    def __init__(self, api_key: int) -> None:
        super().__init__(f"this broker wants a user: API key {api_key} is answered only after a login by SASL")
        self.api_key = api_key
