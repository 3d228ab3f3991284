"""Requests about rights (ACLs): list, create and delete them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.net.request import Call
from warren.broker.security.rights import Operation, Pattern, Permission, ResourceKind, Right, RightsFile
from warren.errors import WarrenError
from warren.protocol.kafka_messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseResult,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)

OFF: Final = "the broker does not check rights; set [security] rights = true"


async def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Returns the rights that match a filter, grouped by resource."""
    file = _file(call)
    if file is None:
        return DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=OFF)
    try:
        is_meant = _filter(request)
        matching = [right for right in await call.broker.in_thread(file.read) if is_meant(right)]
    except (WarrenError, ValueError) as error:
        return DescribeAclsResponse(error_code=_code(error), error_message=call.client_message(error))
    resources = [
        DescribeAclsResponseResource(
            kind,
            name,
            pattern,
            [DescribeAclsResponseAcl(each.principal, each.host, each.operation, each.permission) for each in rights],
        )
        for (kind, name, pattern), rights in groupby(matching, lambda right: right[:3])
    ]
    return DescribeAclsResponse(resources=resources)


async def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Adds rights. Answers each one by itself."""
    results = []
    for creation in request.creations:
        error, file = Code.NONE, _file(call)
        message = None
        try:
            right = Right(
                ResourceKind(creation.resource_type),
                creation.resource_name,
                Pattern(creation.resource_pattern_type),
                creation.principal,
                creation.host,
                Operation(creation.operation),
                Permission(creation.permission_type),
            )
            if file is None:
                error, message = Code.SECURITY_DISABLED, OFF
            else:
                await call.broker.in_thread(file.add, [right])
        except (WarrenError, ValueError) as failure:
            error, message = _code(failure), call.client_message(failure)
        results.append(CreateAclsResponseResult(error, message))
    await _changed(call)
    return CreateAclsResponse(results=results)


async def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Deletes the rights that match the filters."""
    results = []
    for each in request.filters:
        file, gone = _file(call), []
        error, message = (Code.NONE, None) if file is not None else (Code.SECURITY_DISABLED, OFF)
        try:
            gone = [] if file is None else await call.broker.in_thread(file.remove, _filter(each))
        except (WarrenError, ValueError) as failure:
            error, message = _code(failure), call.client_message(failure)
        matching = [
            DeleteAclsResponseMatchingAcl(
                resource_type=right.kind,
                resource_name=right.name,
                pattern_type=right.pattern,
                principal=right.principal,
                host=right.host,
                operation=right.operation,
                permission_type=right.permission,
            )
            for right in gone
        ]
        results.append(DeleteAclsResponseFilterResult(error, message, matching))
    await _changed(call)
    return DeleteAclsResponse(filter_results=results)


def _file(call: Call) -> RightsFile | None:
    return None if call.broker.rights is None else call.broker.rights.file


async def _changed(call: Call) -> None:
    if call.broker.rights is not None:
        await call.broker.rights.refresh(call.broker.in_thread)


def _code(error: Exception) -> Code:
    return code_of(error) if isinstance(error, WarrenError) else Code.INVALID_REQUEST


def _filter(chosen: DescribeAclsRequest | DeleteAclsRequestFilter) -> Callable[[Right], bool]:
    """Returns a function that says whether a right matches. Raises ValueError for an unknown number."""
    kind, pattern = ResourceKind(chosen.resource_type_filter), Pattern(chosen.pattern_type_filter)
    operation, permission = Operation(chosen.operation), Permission(chosen.permission_type)
    name, principal, host = chosen.resource_name_filter, chosen.principal_filter, chosen.host_filter

    def is_meant(right: Right) -> bool:
        if name is not None and pattern is Pattern.MATCH:
            is_named = right.is_about(right.kind, name)
        else:
            is_named = name in (None, right.name) and pattern in (Pattern.ANY, Pattern.MATCH, right.pattern)
        return (
            is_named
            and kind in (ResourceKind.ANY, right.kind)
            and operation in (Operation.ANY, right.operation)
            and permission in (Permission.ANY, right.permission)
            and principal in (None, right.principal)
            and host in (None, right.host)
        )

    return is_meant
