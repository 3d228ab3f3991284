"""Requests about quotas: lists and changes them for Kafka's admin clients."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from warren.broker.kafka.errors import Code, code_of
from warren.broker.net.request import Call
from warren.broker.quotas.entities import ADDRESS, CLIENT, DEFAULT, USER, Entity
from warren.broker.quotas.file import QuotaChange, checked_values
from warren.errors import BadInput, WarrenError
from warren.protocol.kafka_messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)


class Match(IntEnum):
    """How a filter selects a part of an entity: by its name, the default one, or any."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


async def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Returns the quotas of the entities that match a filter."""
    try:
        is_meant = _filter(request)
        quotas = await call.broker.in_thread(call.broker.quotas.file.read)
    except WarrenError as error:
        return DescribeClientQuotasResponse(
            error_code=code_of(error), error_message=call.client_message(error), entries=None
        )
    entries = [
        DescribeClientQuotasResponseEntry(
            entity=[DescribeClientQuotasResponseEntity(part, name or None) for part, name in entity.parts.items()],
            values=[DescribeClientQuotasResponseValue(key, value) for key, value in values.items()],
        )
        for entity, values in quotas.items()
        if is_meant(entity)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filter(request: DescribeClientQuotasRequest) -> Callable[[Entity], bool]:
    """Returns a function that says whether an entity has all parts, and no others if the filter is strict."""
    names: dict[str, str | None] = {}
    for each in request.components:
        if each.entity_type not in (USER, CLIENT, ADDRESS) or each.entity_type in names:
            raise BadInput(f"a filter names user, client-id and ip, each at most once, not {each.entity_type[:50]!r}")
        if each.match_type not in set(Match) or (each.match_type == Match.EXACT and not each.match):
            raise BadInput(f"match type {each.match_type}: expected 0 with a name, 1 or 2")
        names[each.entity_type] = {Match.EXACT: each.match, Match.DEFAULT: DEFAULT}.get(Match(each.match_type))

    def is_meant(entity: Entity) -> bool:
        parts = entity.parts
        has_all = all(part in parts and name in (None, parts[part]) for part, name in names.items())
        return has_all and (not request.strict or len(parts) == len(names))

    return is_meant


async def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Changes quotas. Refuses each impossible entity by itself, and changes the others together."""
    outcomes: list[QuotaChange | WarrenError] = [_outcome(entry) for entry in request.entries]
    changes = [each for each in outcomes if not isinstance(each, WarrenError)]
    failure: WarrenError | None = None
    try:
        if changes and not request.validate_only:
            await call.broker.in_thread(call.broker.quotas.file.alter, changes)
    except WarrenError as error:
        failure = error
    call.broker.quotas.refresh()
    results = []
    for entry, outcome in zip(request.entries, outcomes, strict=True):
        reason = outcome if isinstance(outcome, WarrenError) else failure
        code, message = (Code.NONE, None) if reason is None else (code_of(reason), str(reason))
        results.append(AlterClientQuotasResponseEntry(code, message, entity_of(entry)))
    return AlterClientQuotasResponse(entries=results)


def entity_of(entry: AlterClientQuotasRequestEntry) -> list[AlterClientQuotasResponseEntity]:
    """Returns the entity of a request's entry in the form of the answer."""
    return [AlterClientQuotasResponseEntity(each.entity_type, each.entity_name) for each in entry.entity]


def _outcome(entry: AlterClientQuotasRequestEntry) -> QuotaChange | WarrenError:
    """Returns the change that an entry requests, or the error that refuses it."""
    try:
        return _change(entry)
    except BadInput as error:
        return error


def _change(entry: AlterClientQuotasRequestEntry) -> QuotaChange:
    parts = {each.entity_type: each.entity_name for each in entry.entity}
    entity = Entity.of(parts)
    if len(parts) < len(entry.entity):
        raise BadInput("an entity has each part only once")
    changes = {op.key: None if op.remove else op.value for op in entry.ops}
    return entity, checked_values(entity, changes)
