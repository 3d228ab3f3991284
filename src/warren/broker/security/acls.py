"""Requests about rights: which there are, giving and taking them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.security.rights import Kind, Operation, Pattern, Permission, Right, RightsFile
from warren.errors import WarrenError
from warren.protocol.kafka_codec import Fields, Values

OFF: Final = "the broker asks nobody for rights; set [security] rights = true"


async def describe_acls(call: Call, request: Fields) -> Values:
    """The rights that a filter lets through, by what they are about."""
    file = _file(call)
    if file is None:
        return {"error_code": Code.SECURITY_DISABLED, "error_message": OFF, "resources": []}
    try:
        is_meant = _filter(request)
        found = [right for right in await call.broker.in_thread(file.read) if is_meant(right)]
    except (WarrenError, ValueError) as error:
        return {"error_code": _code(error), "error_message": call.told(error), "resources": []}
    resources = [
        {
            "resource_type": kind,
            "resource_name": name,
            "pattern_type": pattern,
            "acls": [_shown(right) for right in rights],
        }
        for (kind, name, pattern), rights in groupby(found, lambda right: right[:3])
    ]
    return {"error_code": Code.NONE, "resources": resources}


async def create_acls(call: Call, request: Fields) -> Values:
    """The rights hold; each is answered for itself."""
    results = []
    for asked in request.creations:
        error, file = Code.NONE, _file(call)
        message = None
        try:
            right = Right(
                Kind(asked.resource_type),
                asked.resource_name,
                Pattern(asked.resource_pattern_type),
                asked.principal,
                asked.host,
                Operation(asked.operation),
                Permission(asked.permission_type),
            )
            if file is None:
                error, message = Code.SECURITY_DISABLED, OFF
            else:
                await call.broker.in_thread(file.add, [right])
        except (WarrenError, ValueError) as failure:
            error, message = _code(failure), call.told(failure)
        results.append({"error_code": error, "error_message": message})
    await _changed(call)
    return {"results": results}


async def delete_acls(call: Call, request: Fields) -> Values:
    """The rights that filters let through hold no longer."""
    results = []
    for asked in request.filters:
        file, gone = _file(call), []
        error, message = (Code.NONE, None) if file is not None else (Code.SECURITY_DISABLED, OFF)
        try:
            gone = [] if file is None else await call.broker.in_thread(file.remove, _filter(asked))
        except (WarrenError, ValueError) as failure:
            error, message = _code(failure), call.told(failure)
        matching = [
            {"resource_type": right.kind, "resource_name": right.name, "pattern_type": right.pattern, **_shown(right)}
            for right in gone
        ]
        results.append({"error_code": error, "error_message": message, "matching_acls": matching})
    await _changed(call)
    return {"filter_results": results}


def _file(call: Call) -> RightsFile | None:
    return None if call.broker.rights is None else call.broker.rights.file


async def _changed(call: Call) -> None:
    if call.broker.rights is not None:
        await call.broker.rights.refresh(call.broker.in_thread)


def _code(error: Exception) -> Code:
    return code_of(error) if isinstance(error, WarrenError) else Code.INVALID_REQUEST


def _shown(right: Right) -> dict[str, Any]:
    return {
        "principal": right.principal,
        "host": right.host,
        "operation": right.operation,
        "permission_type": right.permission,
    }


def _filter(asked: Fields) -> Callable[[Right], bool]:
    """Which rights are meant. ValueError for a number that means nothing."""
    kind, pattern = Kind(asked.resource_type_filter), Pattern(asked.pattern_type_filter)
    operation, permission = Operation(asked.operation), Permission(asked.permission_type)
    name, principal, host = asked.resource_name_filter, asked.principal_filter, asked.host_filter

    def is_meant(right: Right) -> bool:
        if name is not None and pattern is Pattern.MATCH:
            is_named = right.is_about(right.kind, name)
        else:
            is_named = name in (None, right.name) and pattern in (Pattern.ANY, Pattern.MATCH, right.pattern)
        return (
            is_named
            and kind in (Kind.ANY, right.kind)
            and operation in (Operation.ANY, right.operation)
            and permission in (Permission.ANY, right.permission)
            and principal in (None, right.principal)
            and host in (None, right.host)
        )

    return is_meant
