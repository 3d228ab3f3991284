"""Requests about settings: those of topics are shown and changed, those of the broker are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.metadata import NODE_ID
from warren.broker.topic_configs import CONFIGS, FIXED, settings_of
from warren.errors import BadInput, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.settings import TopicSettings
from warren.queue.topic import Topic

TOPIC: Final = 2
BROKER: Final = 4
SOURCE_TOPIC: Final = 1
SOURCE_BROKER: Final = 4
SOURCE_DEFAULT: Final = 5
KIND_TRUTH: Final = 1
KIND_TEXT: Final = 2
KIND_WHOLE: Final = 5
SET: Final = 0
DELETE: Final = 1


async def describe_configs(call: Call, request: Fields) -> Values:
    """The settings that were asked for, or all, with where each value comes from."""
    return {"results": [await _described(call, asked) for asked in request.resources]}


async def _described(call: Call, asked: Fields) -> dict[str, Any]:
    named = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        if asked.resource_type == TOPIC:
            topic = await call.broker.opened_topic(asked.resource_name)
            await call.broker.in_thread(call.broker.store.refresh_topic, topic)
            found = _topic_rows(topic.settings)
        else:
            _check_broker(asked)
            found = _broker_rows(call)
    except WarrenError as error:
        return {**named, "error_code": code_of(error), "error_message": call.told(error), "configs": []}
    wanted = None if asked.configuration_keys is None else frozenset(asked.configuration_keys)
    return {**named, "configs": [row for row in found if wanted is None or row["name"] in wanted]}


def _check_broker(asked: Fields) -> None:
    if asked.resource_type != BROKER:
        raise BadInput(f"resources of type {asked.resource_type} have no settings here; topics (2) and brokers (4) do")
    if asked.resource_name not in ("", str(NODE_ID)):
        raise BadInput(f"there is no broker {asked.resource_name!r}; this is broker {NODE_ID}")


def _topic_rows(settings: TopicSettings) -> list[dict[str, Any]]:
    defaults = TopicSettings()
    rows = []
    for name, config in CONFIGS.items():
        value = getattr(settings, config.setting)
        is_default = value == getattr(defaults, config.setting)
        source = SOURCE_DEFAULT if is_default else SOURCE_TOPIC
        rows.append(_row(name, config.show(value), source, is_read_only=False))
    rows += [_row(name, value, SOURCE_DEFAULT, is_read_only=True) for name, value in FIXED.items()]
    return rows


def _broker_rows(call: Call) -> list[dict[str, Any]]:
    settings = call.broker.settings
    is_made = str(settings.auto_create_topics).lower()
    rows = [_row("auto.create.topics.enable", is_made, SOURCE_BROKER, is_read_only=True)]
    for key, (value, source) in settings.shown.items():
        told = SOURCE_DEFAULT if source == "default" else SOURCE_BROKER
        rows.append(_row(f"warren.{key}", value, told, is_read_only=True))
    return rows


def _row(name: str, value: str, source: int, *, is_read_only: bool) -> dict[str, Any]:
    kind = KIND_TRUTH if value in ("true", "false") else KIND_WHOLE if value.lstrip("-").isdigit() else KIND_TEXT
    return {
        "name": name,
        "value": value,
        "read_only": is_read_only,
        "is_default": source == SOURCE_DEFAULT,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": kind,
    }


async def alter_configs(call: Call, request: Fields) -> Values:
    """Topics get the settings that are named, and for all others their defaults."""
    answers = []
    for asked in request.resources:
        given = dict.fromkeys(CONFIGS) | {each.name: each.value for each in asked.configs}
        answers.append(await _altered(call, asked, given, is_tried_only=request.validate_only))
    return {"responses": answers}


async def incremental_alter_configs(call: Call, request: Fields) -> Values:
    """Topics get the settings that are named, set or back to their defaults; the others stay."""
    answers = []
    for asked in request.resources:
        given = {each.name: None if each.config_operation == DELETE else each.value for each in asked.configs}
        problem = _problem(asked.configs)
        answers.append(
            _answer(asked, Code.INVALID_REQUEST, problem)
            if problem
            else await _altered(call, asked, given, is_tried_only=request.validate_only)
        )
    return {"responses": answers}


def _problem(changes: Sequence[Fields]) -> str:
    """What is wrong with the changes as such; empty where nothing is."""
    repeated = sorted(name for name, count in Counter(each.name for each in changes).items() if count > 1)
    if repeated:
        return f"a setting is named more than once: {', '.join(repeated)}"
    lists = [each.name for each in changes if each.config_operation not in (SET, DELETE)]
    return f"{', '.join(lists)}: not a list, and can only be set or deleted" if lists else ""


async def _altered(
    call: Call, asked: Fields, given: Mapping[str, str | None], *, is_tried_only: bool
) -> dict[str, Any]:
    try:
        if asked.resource_type != TOPIC:
            _check_broker(asked)
            return _answer(asked, Code.INVALID_REQUEST, "what the broker was told changes with a restart only")
        topic = await call.broker.opened_topic(asked.resource_name)
        await call.broker.in_thread(_configure, topic, settings_of(given), is_tried_only=is_tried_only)
    except BadInput as error:
        code = Code.INVALID_CONFIG if asked.resource_type == TOPIC else code_of(error)
        return _answer(asked, code, call.told(error))
    except WarrenError as error:
        return _answer(asked, code_of(error), call.told(error))
    return _answer(asked, Code.NONE, None)


def _configure(topic: Topic, changes: Mapping[str, Any], *, is_tried_only: bool) -> None:
    if is_tried_only:
        topic.settings.changed(changes)
    else:
        topic.configure(**changes)


def _answer(asked: Fields, code: Code, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }
