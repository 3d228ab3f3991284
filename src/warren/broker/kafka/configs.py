"""Requests about settings: describes and changes topics' settings under Kafka's names, and describes the broker's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.broker.net.request import Call
from warren.errors import BadInput, WarrenError
from warren.protocol.kafka_messages import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResult,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResult,
)
from warren.queue.state.settings import DELIVER_AT_CHOICES, TOPIC_SETTINGS, TopicSettings
from warren.queue.topic import Topic
from warren.settings import Count, Flag, Kind, OrNone, Parsed, Text, unknown

MS: Final = 1000
UNLIMITED: Final = "-1"
TOPIC: Final = 2
BROKER: Final = 4
SOURCE_TOPIC: Final = 1
SOURCE_BROKER: Final = 4
SOURCE_DEFAULT: Final = 5
KIND_BOOLEAN: Final = 1
KIND_STRING: Final = 2
KIND_LONG: Final = 5
SET: Final = 0
DELETE: Final = 1


# --- Kafka's names for the settings of a topic ---


class Config(NamedTuple):
    """One of Kafka's config names: the setting that it maps to, the kind of its text, and how a value is shown.

    The text is parsed as Kafka writes it, and the value then checked like that of the setting.
    """

    setting: str
    kind: Kind[Any]
    show: Callable[[Any], str] = str


def _seconds(text: str) -> float:
    return Count(1).parse(text) / MS


CONFIGS: Final[Mapping[str, Config]] = MappingProxyType(
    {
        "retention.ms": Config(
            "retention_age_s",
            OrNone(Parsed("milliseconds", _seconds), UNLIMITED),
            lambda value: UNLIMITED if value is None else str(round(value * MS)),
        ),
        "retention.bytes": Config(
            "retention_bytes", OrNone(Count(1), UNLIMITED), lambda value: UNLIMITED if value is None else str(value)
        ),
        "segment.bytes": Config("block_size", Count()),
        "max.message.bytes": Config("message_size_max", Count()),
        "warren.durability": Config("durability", Text()),
        "warren.compression": Config("compression", Text()),
        "warren.retention.consumed": Config("retention_consumed", Flag(), lambda value: str(value).lower()),
        "warren.dead.letter": Config("dead_letter", Text()),
        "warren.replication": Config("replication", Text()),
        "warren.deliver.at": Config("deliver_at", Text()),
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
"""Names with one fixed value. A client may read it, and may set it only to this value."""


def settings_of(configs: Mapping[str, str | None]) -> dict[str, Any]:
    """Returns the settings for Kafka's names; None resets a setting to its default.

    Raises BadInput if a name is unknown or a value is impossible.
    """
    settings: dict[str, Any] = {}
    for name, text in configs.items():
        config = CONFIGS.get(name)
        if config is not None:
            setting = TOPIC_SETTINGS[config.setting]
            settings[setting.name] = setting.default if text is None else _parsed(name, config, text)
        elif name not in FIXED:
            raise BadInput(unknown("setting", name, [*CONFIGS, *FIXED]))
        elif FIXED[name] != text:
            raise BadInput(f"{name}={text!r}: only {FIXED[name]!r} is possible")
    return settings


def _parsed(name: str, config: Config, text: str) -> Any:
    try:
        return TOPIC_SETTINGS[config.setting].kind.check(config.kind.parse(text))
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


# --- Describing ---


async def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Returns the settings that the client names, or all, and where each value comes from."""
    return DescribeConfigsResponse(results=[await _described(call, resource) for resource in request.resources])


async def _described(call: Call, resource: DescribeConfigsRequestResource) -> DescribeConfigsResponseResult:
    result = DescribeConfigsResponseResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        if resource.resource_type == TOPIC:
            topic = await call.broker.opened_topic(resource.resource_name)
            await call.broker.in_thread(call.broker.store.refresh_topic, topic)
            rows = topic_rows(topic.settings, call.broker.settings.deliver_at)
            rows += [_row(name, value, SOURCE_DEFAULT, is_read_only=True) for name, value in FIXED.items()]
        else:
            _check_broker(call, resource.resource_type, resource.resource_name)
            rows = _broker_rows(call)
    except WarrenError as error:
        result.error_code, result.error_message = code_of(error), call.client_message(error)
        return result
    keys = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    result.configs = [row for row in rows if keys is None or row.name in keys]
    return result


def _check_broker(call: Call, kind: int, name: str) -> None:
    if kind != BROKER:
        raise BadInput(f"resources of type {kind} have no settings; topics (2) and brokers (4) do")
    node = call.broker.leadership.node
    if name not in ("", str(node)):
        raise BadInput(f"there is no broker {name!r}; this is broker {node}")


def topic_rows(settings: TopicSettings, deliver_at: str) -> list[DescribeConfigsResponseConfig]:
    """Returns the settings of a topic under Kafka's names, except for those that have one value only.

    `deliver_at` is the broker's setting, which applies to a topic that has none of its own.
    """
    rows = []
    for name, config in CONFIGS.items():
        value = getattr(settings, config.setting)
        source = SOURCE_DEFAULT if value == TOPIC_SETTINGS[config.setting].default else SOURCE_TOPIC
        if config.setting == "deliver_at" and value is None:
            value, source = deliver_at, SOURCE_DEFAULT if deliver_at == DELIVER_AT_CHOICES[0] else SOURCE_BROKER
        rows.append(_row(name, config.show(value), source, is_read_only=False))
    return rows


def _broker_rows(call: Call) -> list[DescribeConfigsResponseConfig]:
    settings = call.broker.settings
    creates = str(settings.auto_create_topics).lower()
    rows = [_row("auto.create.topics.enable", creates, SOURCE_BROKER, is_read_only=True)]
    for key, (value, origin) in settings.key_values.items():
        source = SOURCE_DEFAULT if origin == "default" else SOURCE_BROKER
        rows.append(_row(f"warren.{key}", value, source, is_read_only=True))
    return rows


def _row(name: str, value: str, source: int, *, is_read_only: bool) -> DescribeConfigsResponseConfig:
    is_boolean, is_whole = value in ("true", "false"), value.lstrip("-").isdigit()
    return DescribeConfigsResponseConfig(
        name=name,
        value=value,
        read_only=is_read_only,
        is_default=source == SOURCE_DEFAULT,
        config_source=source,
        config_type=KIND_BOOLEAN if is_boolean else KIND_LONG if is_whole else KIND_STRING,
    )


# --- Changing ---


async def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Sets the settings that the request names, and resets all others to their defaults."""
    results = []
    for resource in request.resources:
        changes = dict[str, str | None].fromkeys(CONFIGS) | {each.name: each.value for each in resource.configs}
        code, message = await _altered(call, resource, changes, is_only_checked=request.validate_only)
        results.append(AlterConfigsResponseResult(code, message, resource.resource_type, resource.resource_name))
    return AlterConfigsResponse(responses=results)


async def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Sets or resets the settings that the request names. The others stay."""
    results = []
    for resource in request.resources:
        changes = {each.name: None if each.config_operation == DELETE else each.value for each in resource.configs}
        code, message = Code.INVALID_REQUEST, _problem(resource.configs)
        if message is None:
            code, message = await _altered(call, resource, changes, is_only_checked=request.validate_only)
        named = resource.resource_type, resource.resource_name
        results.append(IncrementalAlterConfigsResponseResult(code, message, *named))
    return IncrementalAlterConfigsResponse(responses=results)


def _problem(changes: Sequence[IncrementalAlterConfigsRequestConfig]) -> str | None:
    """Returns the error of changes that are not valid by themselves; None if they are."""
    repeated = sorted(name for name, count in Counter(each.name for each in changes).items() if count > 1)
    if repeated:
        return f"a setting is named more than once: {', '.join(repeated)}"
    lists = [each.name for each in changes if each.config_operation not in (SET, DELETE)]
    return f"{', '.join(lists)}: not a list: it can only be set or deleted" if lists else None


async def _altered(
    call: Call,
    resource: AlterConfigsRequestResource | IncrementalAlterConfigsRequestResource,
    changes: Mapping[str, str | None],
    *,
    is_only_checked: bool,
) -> tuple[Code, str | None]:
    """Changes the settings of a topic. Returns the error code and its message."""
    try:
        if resource.resource_type != TOPIC:
            _check_broker(call, resource.resource_type, resource.resource_name)
            return Code.INVALID_REQUEST, "the settings of the broker change only by a restart with other settings"
        topic = await call.broker.opened_topic(resource.resource_name)
        await call.broker.in_thread(_configure, topic, settings_of(changes), is_only_checked=is_only_checked)
    except BadInput as error:
        code = Code.INVALID_CONFIG if resource.resource_type == TOPIC else code_of(error)
        return code, call.client_message(error)
    except WarrenError as error:
        return code_of(error), call.client_message(error)
    return Code.NONE, None


def _configure(topic: Topic, changes: Mapping[str, Any], *, is_only_checked: bool) -> None:
    if is_only_checked:
        topic.settings.changed(changes)
    else:
        topic.configure(**changes)
