"""From the API key of a request to whoever answers it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from warren.broker import admin, configs, fetch, metadata, offsets, produce, versions
from warren.broker.call import Answer, AnyHandler, Call, Handler
from warren.broker.error_codes import is_long, tells_of_error
from warren.broker.groups import commits, consumer_requests, listing, membership, share_requests
from warren.broker.own.handlers import OWN_HANDLERS
from warren.broker.quotas import requests as quotas
from warren.broker.request_rows import RequestRows, rows_of
from warren.broker.security import acls, sasl
from warren.broker.security.guards import guarded
from warren.broker.transactions import requests as transactions
from warren.config import LOOP_REQUEST_SIZE_MAX, LOOP_ROWS_AT_ONCE
from warren.protocol.api import ApiKey
from warren.protocol.kafka_codec import Fields, Values, decode_request, encode_response

Plain = Callable[[Call, Fields], Values | Awaitable[Values]]
"""A handler that is given the fields of the request, and gives those of the response."""


def plain(handle: Plain) -> Handler:
    """The same as a handler of bytes. What is named twice is answered once, and long requests are done in turns."""

    def answer(call: Call) -> Answer | Awaitable[Answer]:
        request = call.request
        if len(request.body) > LOOP_REQUEST_SIZE_MAX:
            return _answered_aside(call, handle)
        asked, refused = _read(call)
        return _answered(call, asked, refused, handle)

    return answer


async def _answered_aside(call: Call, handle: Plain) -> Answer:
    asked, refused = await call.broker.aside(_read, call)
    found = _answered(call, asked, refused, handle)
    return await found if inspect.isawaitable(found) else found


def _read(call: Call) -> tuple[Fields, list[Values]]:
    """The request, in which nothing is named twice, and the answers to what was refused because it was."""
    request = call.request
    asked = decode_request(request.api_key, request.version, request.body)
    rows = rows_of(request.api_key, request.version)
    return asked, [] if rows is None else rows.tidy(asked)


def _answered(call: Call, asked: Fields, refused: Sequence[Values], handle: Plain) -> Answer | Awaitable[Answer]:
    rows = rows_of(call.request.api_key, call.version)
    if rows is not None and (refused or (rows.is_cut and rows.count(asked) > LOOP_ROWS_AT_ONCE)):
        return _encoded(call, _in_turns(call, asked, rows, refused, handle))
    found = _handled(call, asked, handle)
    return _encoded(call, found) if inspect.isawaitable(found) else _counted(call, found)


def _handled(call: Call, asked: Fields, handle: Plain) -> Values | Awaitable[Values]:
    return handle(call, asked) if call.broker.rights is None else guarded(call, asked, handle)


async def _in_turns(call: Call, asked: Fields, rows: RequestRows, refused: Sequence[Values], handle: Plain) -> Values:
    """What `handle` answers to the request, asked piece by piece: other requests are answered in between."""
    answers = []
    async for piece in call.broker.turns.over(await call.broker.aside(lambda: list(rows.pieces(asked)))):
        found = _handled(call, piece, handle)
        answers.append(await found if inspect.isawaitable(found) else found)
    return await call.broker.aside(rows.joined, answers, refused)


async def _encoded(call: Call, values: Awaitable[Values]) -> Answer:
    found = await values
    if not is_long(found):
        return _counted(call, found)
    answer, is_error = await call.broker.aside(_encode, call, found)
    if is_error:
        call.broker.metrics.failed(call.request.api_key)
    return answer


def _encode(call: Call, values: Values) -> tuple[Answer, bool]:
    return encode_response(call.request.api_key, call.version, values), tells_of_error(values)


def _counted(call: Call, values: Values) -> Answer:
    answer, is_error = _encode(call, values)
    if is_error:
        call.broker.metrics.failed(call.request.api_key)
    return answer


HANDLERS: Final[Mapping[int, AnyHandler]] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: versions.api_versions,
        ApiKey.PRODUCE: produce.produce,
        ApiKey.FETCH: fetch.fetch,
        ApiKey.METADATA: plain(metadata.metadata),
        ApiKey.DESCRIBE_CLUSTER: plain(metadata.describe_cluster),
        ApiKey.FIND_COORDINATOR: plain(metadata.find_coordinator),
        ApiKey.LIST_OFFSETS: plain(offsets.list_offsets),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: plain(offsets.offset_for_leader_epoch),
        ApiKey.DELETE_RECORDS: plain(offsets.delete_records),
        ApiKey.CREATE_TOPICS: plain(admin.create_topics),
        ApiKey.DELETE_TOPICS: plain(admin.delete_topics),
        ApiKey.CREATE_PARTITIONS: plain(admin.create_partitions),
        ApiKey.DESCRIBE_ACLS: plain(acls.describe_acls),
        ApiKey.CREATE_ACLS: plain(acls.create_acls),
        ApiKey.DELETE_ACLS: plain(acls.delete_acls),
        ApiKey.SASL_HANDSHAKE: plain(sasl.sasl_handshake),
        ApiKey.SASL_AUTHENTICATE: plain(sasl.sasl_authenticate),
        ApiKey.DESCRIBE_CONFIGS: plain(configs.describe_configs),
        ApiKey.ALTER_CONFIGS: plain(configs.alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: plain(configs.incremental_alter_configs),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: plain(quotas.describe_client_quotas),
        ApiKey.ALTER_CLIENT_QUOTAS: plain(quotas.alter_client_quotas),
        ApiKey.JOIN_GROUP: plain(membership.join_group),
        ApiKey.SYNC_GROUP: plain(membership.sync_group),
        ApiKey.HEARTBEAT: plain(membership.heartbeat),
        ApiKey.LEAVE_GROUP: plain(membership.leave_group),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: plain(consumer_requests.consumer_group_heartbeat),
        ApiKey.CONSUMER_GROUP_DESCRIBE: plain(consumer_requests.consumer_group_describe),
        ApiKey.SHARE_GROUP_HEARTBEAT: plain(share_requests.share_group_heartbeat),
        ApiKey.SHARE_GROUP_DESCRIBE: plain(share_requests.share_group_describe),
        ApiKey.SHARE_FETCH: plain(share_requests.share_fetch),
        ApiKey.SHARE_ACKNOWLEDGE: plain(share_requests.share_acknowledge),
        ApiKey.OFFSET_COMMIT: plain(commits.offset_commit),
        ApiKey.OFFSET_FETCH: plain(commits.offset_fetch),
        ApiKey.OFFSET_DELETE: plain(commits.offset_delete),
        ApiKey.LIST_GROUPS: plain(listing.list_groups),
        ApiKey.DESCRIBE_GROUPS: plain(listing.describe_groups),
        ApiKey.DELETE_GROUPS: plain(listing.delete_groups),
        ApiKey.INIT_PRODUCER_ID: plain(transactions.init_producer_id),
        ApiKey.ADD_PARTITIONS_TO_TXN: plain(transactions.add_partitions_to_txn),
        ApiKey.ADD_OFFSETS_TO_TXN: plain(transactions.add_offsets_to_txn),
        ApiKey.TXN_OFFSET_COMMIT: plain(transactions.txn_offset_commit),
        ApiKey.END_TXN: plain(transactions.end_txn),
        **OWN_HANDLERS,
    }
)
