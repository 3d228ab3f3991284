"""The root of the tree of errors, and the errors of a caller's input."""

from __future__ import annotations


class WarrenError(Exception):
    """The class of every error that Warren raises on purpose.

    `code` goes over the wire; `retryable`: trying again may help.
    """

    code = "error"
    retryable = False


class BadInput(WarrenError, ValueError):
    """The caller's input is not valid. Nothing was changed."""

    code = "bad_input"


class TooLarge(BadInput):
    """A body, tag, id, key or header is over its limit."""

    code = "too_large"

    def __init__(self, what: str, size: int, size_max: int) -> None:
        super().__init__(f"{what} of {size} bytes is over the limit of {size_max} bytes")
        self.what, self.size, self.size_max = what, size, size_max


class MalformedFilter(BadInput):
    """The tag filter does not follow the rules of filters."""

    code = "malformed_filter"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"tag filter {text[:200]!r}: {reason}")
        self.text, self.reason = text, reason


class BadName(BadInput):
    """The name is not valid for a topic, group, producer or queue."""

    code = "bad_name"

    def __init__(self, what: str, name: str, reason: str) -> None:
        super().__init__(f"{what} name {name!r}: {reason}")
        self.what, self.name, self.reason = what, name, reason


class SettingsDiffer(BadInput):
    """A topic or group was opened with settings that are not its own."""

    code = "settings_differ"

    def __init__(self, what: str, setting: str, value: object, kept: object, remedy: str) -> None:
        super().__init__(f"{what} has {setting}={kept!r}, not {value!r}; {remedy}")
        self.what, self.setting, self.given, self.kept = what, setting, value, kept


class UnsupportedByVersion(BadInput):
    """The log's format version does not support this."""

    code = "unsupported_by_version"

    def __init__(self, what: str, version: int) -> None:
        super().__init__(f"{what}: not supported by a log of format version {version}; use version 2")
        self.what, self.version = what, version
