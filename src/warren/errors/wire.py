"""Errors in data that comes over the network."""

from __future__ import annotations

from warren.errors.root import WarrenError


class ProtocolError(WarrenError):
    """The other side of a connection sent something that is not valid."""

    code = "protocol"


class BadFrame(ProtocolError):
    """The size of a frame is negative or over the limit. The bytes after it cannot be parsed, so
    the connection ends.
    """

    code = "bad_frame"

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"a frame has {size} bytes; expected 0 to {size_max}")
        self.size, self.size_max = size, size_max


class MalformedRequest(ProtocolError):
    """The bytes do not match their API key and version."""

    code = "malformed_request"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason


class UnsupportedRequest(ProtocolError):
    """The broker does not serve this API key, or not in this version."""

    code = "unsupported_request"

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"version {version} of API key {api_key} is not served; ApiVersions lists the served versions")
        self.api_key, self.version = api_key, version


class BadBatch(ProtocolError):
    """A record batch from a producer is not valid. Nothing of it was stored."""

    code = "bad_batch"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the record batch is not valid: {reason}")
        self.reason = reason


class BadRecord(ProtocolError):
    """A record from a producer is not valid, so its whole batch is refused. `row` is its index in the batch."""

    code = "bad_record"

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"record {row} of the batch is not valid: {reason}")
        self.row, self.reason = row, reason


class KafkaMissing(ProtocolError):
    """The broker needs a part of kafka-python that is not installed."""

    code = "kafka_missing"

    def __init__(self, what: str) -> None:
        super().__init__(f"kafka-python's description of {what} is missing; install `warren[broker]`")
        self.what = what


class NotAuthenticated(ProtocolError):
    """The client sent a request without a login, and the broker requires one."""

    code = "not_authenticated"

    def __init__(self, api_key: int) -> None:
        super().__init__(f"this broker requires a login: API key {api_key} is answered only after SASL authentication")
        self.api_key = api_key
