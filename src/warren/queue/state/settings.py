"""The settings of a topic, as stored in `topic.json`, and the rules for names."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from warren.errors import BadInput, BadName, CorruptSettings
from warren.limits import NAME_SIZE_MAX, PARTITIONS_MAX
from warren.settings import (
    NAME_SHOWN_SIZE_MAX,
    Count,
    Flag,
    OneOf,
    OrNone,
    Parsed,
    Seconds,
    Size,
    Table,
    refused,
    setting,
)
from warren.storage.append.durability import INTERVAL_S_MAX, Durability, Replication
from warren.storage.format.layout import COMPRESSIONS
from warren.storage.format.limits import BLOCK_SIZE_DEFAULT, BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, BODY_SIZE_MAX
from warren.storage.format.record import check_bodies, check_size
from warren.storage.format.versions import FORMATS, VERSION_DEFAULT, VERSIONS, Format

REPLICATION_CHOICES: Final = ("sync", "async")
DELIVER_AT_CHOICES: Final = ("none", "plain", "all")
"""In which batches of Kafka clients the header `warren.deliver-at` delays records; "plain": batches that are not
compressed.
"""

FIXED = ("version",)
"""Settings that cannot be changed after the topic was created."""
ALLOWED: Final = re.compile(r"[A-Za-z0-9._-]+")
NAME_PATTERN: Final = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
RETENTION_AGE_S_MAX: Final = 1e16
"""More than the largest number of ms that a Kafka client can set."""
RETENTION_BYTES_MAX: Final = 1 << 62


def checked_name(what: str, name: object, size_max: int = NAME_SIZE_MAX) -> str:
    """Returns `name` if it can be the name of a `what` and of a directory. Raises BadName if not."""
    if not isinstance(name, str):
        raise BadName(what, repr(name), "a name must be a str")
    if not name or len(name.encode(errors="replace")) > size_max:
        raise BadName(what, name[:NAME_SHOWN_SIZE_MAX], f"a name must have 1 to {size_max} bytes")
    if not ALLOWED.fullmatch(name):
        raise BadName(what, name, "a name may only have letters, digits, '.', '_' and '-'")
    if name.startswith("."):
        raise BadName(what, name, "a name must not start with a dot")
    return name


def _durability(text: str) -> str:
    try:
        Durability.parse(text)
    except BadInput:
        expected = f"commit, os, or an interval above 0 and at most {INTERVAL_S_MAX:g} s, such as interval:50ms"
        raise refused(expected, text) from None
    return text


def _dead_letter(text: str) -> str:
    return checked_name("dead-letter topic", text) if text else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic. Raises BadInput if one is not valid.

    `retention_age_s`, `retention_bytes` (of each partition) and `retention_consumed` (by every group) each retire
    messages; None and False retire nothing. `dead_letter` is the topic for dead letters; "" stands for `<topic>.dead`.
    `deliver_at` says in which batches of Kafka clients a broker obeys the header `warren.deliver-at`; None means that
    the broker's own setting applies.
    """

    partitions: int = setting(Count(1, PARTITIONS_MAX), "the number of partitions; it can grow, never shrink", 1)
    version: int = setting(
        Count(min(VERSIONS), max(VERSIONS)), "the format of the logs; it cannot be changed", VERSION_DEFAULT
    )
    durability: str = setting(
        Parsed(
            "commit, os, or e.g. interval:50ms",
            _durability,
            pattern=r"^(commit|os|interval:[0-9]{1,9}(\.[0-9]{1,9})?(ms|s))$",
            size_max=30,
        ),
        "when a put is done: `commit`, `os`, or e.g. `interval:50ms`",
        "commit",
    )
    block_size: int = setting(
        Size(BLOCK_SIZE_MIN, BLOCK_SIZE_MAX), "the bytes of a block, such as `64MiB`", BLOCK_SIZE_DEFAULT
    )
    compression: str = setting(OneOf(COMPRESSIONS), "how batches are compressed: `none`, `zstd` or `lz4`", "none")
    message_size_max: int = setting(
        Size(0, BODY_SIZE_MAX),
        "the bytes of the largest body, also of one that a Kafka client compressed, or of its batch as it is sent",
        BODY_SIZE_MAX,
    )
    retention_age_s: float | None = setting(
        OrNone(Seconds(0, RETENTION_AGE_S_MAX, is_above=True)),
        "how long messages are kept, such as `7d`; without a limit, if not set",
        None,
    )
    retention_bytes: int | None = setting(
        OrNone(Size(1, RETENTION_BYTES_MAX)),
        "how many bytes of a partition are kept, such as `10GiB`; all, if not set",
        None,
    )
    retention_consumed: bool = setting(Flag(), "whether messages that every group has consumed are removed", False)
    dead_letter: str = setting(
        Parsed(
            "the name of a topic, or no text",
            _dead_letter,
            pattern="^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$",
            size_max=NAME_SIZE_MAX,
        ),
        "the topic for dead letters; if empty, the name of the topic with `.dead` after it",
        "",
    )
    deliver_at: str | None = setting(
        OrNone(OneOf(DELIVER_AT_CHOICES), word="default"),
        "in which batches of Kafka clients the header `warren.deliver-at` delays records: `none`, `plain` or `all`; "
        "as the broker's `broker.deliver_at` says, if not set",
        None,
    )

    replication: str = setting(
        OneOf(REPLICATION_CHOICES),
        "in a store with slaves: whether a put waits until the in-sync set has it, `sync`, or not, `async`",
        "sync",
    )

    def __post_init__(self) -> None:
        TOPIC_SETTINGS.check_fields(self)
        if self.compression != "none" and not self.format.has_compression:
            raise BadInput(f"compression: not supported by format version {self.version}")

    @property
    def format(self) -> Format:
        """The format of the topic's logs. It says which features they have."""
        return FORMATS[self.version]

    @property
    def log_replication(self) -> Replication:
        """What waits for the other replicas in the logs of the topic."""
        return "async" if self.replication == "async" else "sync"

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Returns the settings with these changes. Raises BadInput if they cannot be made."""
        TOPIC_SETTINGS.check_names(changes)
        changed = dataclasses.replace(self, **changes)
        for name in FIXED:
            if getattr(changed, name) != getattr(self, name):
                raise BadInput(f"{name} cannot be changed after the topic was created")
        if changed.partitions < self.partitions:
            raise BadInput(f"partitions can be added but not removed: the topic has {self.partitions}")
        return changed

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, path: str, data: Mapping[str, Any]) -> Self:
        """Reads the settings that `to_json` returned, from the file `path`.

        Ignores settings that a later release has added.
        """
        try:
            return cls(**{name: data[name] for name in TOPIC_SETTINGS if name in data})
        except BadInput as error:
            raise CorruptSettings(path, str(error)) from error

    @classmethod
    def from_bytes(cls, path: str, content: bytes) -> Self:
        """Reads the settings from the content of the file `path`. Raises CorruptSettings if they cannot be read."""
        try:
            data = json.loads(content)
        except ValueError as error:
            raise CorruptSettings(path, str(error)) from error
        if not isinstance(data, dict):
            raise CorruptSettings(path, "it is not an object")
        return cls.from_json(path, data)


TOPIC_SETTINGS: Final = Table.of("setting", TopicSettings)
"""The settings of a topic. Python, the command line, HTTP, Kafka clients and the broker's `topics.*` use this table."""


def check_sizes(bodies: Sequence[bytes], size_max: int) -> None:
    """Raises TooLarge if one of the bodies has more than `size_max` bytes, and BadInput if one is not bytes."""
    try:
        largest = max(map(len, bodies), default=0)
    except TypeError:
        check_bodies(bodies)
        raise
    check_size("body", largest, size_max)
