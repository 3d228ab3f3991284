"""Kafka's names for the settings of a topic: as clients set them, and as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.errors import BadInput
from warren.queue.settings import TopicSettings

MS: Final = 1000
UNLIMITED: Final = "-1"


class Config(NamedTuple):
    """One of Kafka's names: which setting it is, and how its text becomes a value and a value its text."""

    setting: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str]


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"{text!r}: expected a whole number") from None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadInput(f"{text!r}: expected true or false")
    return text.lower() == "true"


def _limit(text: str) -> int | None:
    return None if text == UNLIMITED else _whole(text)


CONFIGS: Final[Mapping[str, Config]] = MappingProxyType(
    {
        "retention.ms": Config(
            "retention_age_s",
            lambda text: None if (value := _limit(text)) is None else value / MS,
            lambda value: UNLIMITED if value is None else str(round(value * MS)),
        ),
        "retention.bytes": Config("retention_bytes", _limit, lambda value: UNLIMITED if value is None else str(value)),
        "segment.bytes": Config("block_size", _whole, str),
        "max.message.bytes": Config("message_size_max", _whole, str),
        "warren.durability": Config("durability", str, str),
        "warren.compression": Config("compression", str, str),
        "warren.retention.consumed": Config("retention_consumed", _truth, lambda value: str(value).lower()),
        "warren.dead.letter": Config("dead_letter", str, str),
    }
)
FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "compression.type": "producer",
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
    }
)
"""What clients may ask for and set to this value, and to no other."""


def settings_of(configs: Mapping[str, str | None]) -> dict[str, Any]:
    """The settings that clients mean; BadInput for a name that is not known, or a value that cannot be."""
    settings: dict[str, Any] = {}
    defaults = TopicSettings()
    for name, text in configs.items():
        config = CONFIGS.get(name)
        if config is not None:
            setting = config.setting
            settings[setting] = getattr(defaults, setting) if text is None else _parsed(name, config, text)
        elif FIXED.get(name, text) != text or name not in FIXED:
            known = ", ".join(sorted([*CONFIGS, *FIXED]))
            reason = f"only {FIXED[name]!r} is possible" if name in FIXED else f"known are {known}"
            raise BadInput(f"{name}={text!r}: {reason}")
    return settings


def _parsed(name: str, config: Config, text: str) -> Any:
    try:
        value = config.parse(text)
        TopicSettings(**{config.setting: value})
    except BadInput as error:
        raise BadInput(f"{name}={text!r}: {error}") from error
    return value
