"""The settings of a topic, as they stand in `topic.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from warren.config import (
    BLOCK_SIZE_DEFAULT,
    BLOCK_SIZE_MAX,
    BLOCK_SIZE_MIN,
    BODY_SIZE_MAX,
    PARTITIONS_MAX,
    VERSION_DEFAULT,
    VERSIONS,
    Durability,
)
from warren.errors import BadInput, CorruptSettings
from warren.queue.names import checked_name
from warren.storage.compression import compression_code

FIXED = ("version",)
"""What cannot be changed once the topic is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How a topic keeps its messages. BadInput for what cannot be.

    `retention_age_s`, `retention_bytes` (of each partition) and `retention_consumed` (by every group) each retire
    messages; None and False retire nothing. `dead_letter` is the topic of what could not be consumed; "" stands
    for `<topic>.dead`.
    """

    partitions: int = 1
    version: int = VERSION_DEFAULT
    durability: str = "commit"
    block_size: int = BLOCK_SIZE_DEFAULT
    compression: str = "none"
    message_size_max: int = BODY_SIZE_MAX
    retention_age_s: float | None = None
    retention_bytes: int | None = None
    retention_consumed: bool = False
    dead_letter: str = ""

    def __post_init__(self) -> None:
        _check_whole("partitions", self.partitions, 1, PARTITIONS_MAX)
        if self.version not in VERSIONS:
            raise BadInput(f"version {self.version!r}: expected one of {VERSIONS}")
        if not isinstance(self.durability, str):
            raise BadInput(f"durability {self.durability!r}: expected a str")
        Durability.parse(self.durability)
        _check_whole("block_size", self.block_size, BLOCK_SIZE_MIN, BLOCK_SIZE_MAX)
        compression_code(self.compression)
        if self.version == 1 and self.compression != "none":
            raise BadInput("compression: not possible in format version 1")
        _check_whole("message_size_max", self.message_size_max, 0, BODY_SIZE_MAX)
        age = self.retention_age_s
        if age is not None and not _is_above_zero(age):
            raise BadInput(f"retention_age_s {age!r}: expected seconds above 0, or None")
        if self.retention_bytes is not None:
            _check_whole("retention_bytes", self.retention_bytes, 1, 1 << 62)
        if not isinstance(self.retention_consumed, bool):
            raise BadInput(f"retention_consumed {self.retention_consumed!r}: expected True or False")
        if self.dead_letter:
            checked_name("dead-letter topic", self.dead_letter)

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls)]

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """The settings with `changes` made."""
        check_known(changes)
        for name in FIXED:
            if name in changes and changes[name] != getattr(self, name):
                raise BadInput(f"{name} cannot be changed once the topic is there")
        if changes.get("partitions", self.partitions) < self.partitions:
            raise BadInput(f"partitions can be added, never removed: there are {self.partitions}")
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, path: str, data: Mapping[str, Any]) -> Self:
        """What `to_json` gave, from the file `path`; what a later release has added is left alone."""
        try:
            return cls(**{name: data[name] for name in cls.names() if name in data})
        except BadInput as error:
            raise CorruptSettings(path, str(error)) from error


def check_known(settings: Mapping[str, Any]) -> None:
    """BadInput for a setting that no topic has."""
    for name in settings:
        if name not in TopicSettings.names():
            raise BadInput(f"unknown setting {name!r}; a topic has {', '.join(TopicSettings.names())}")


def _is_above_zero(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadInput(f"{name} {value!r}: expected a whole number from {least} to {most}")
