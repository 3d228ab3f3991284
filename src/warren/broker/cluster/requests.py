"""Requests of slaves to their master, and what clients and the command line ask of a shard."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from warren.broker.cluster.node import ReplicaNode
from warren.broker.cluster.paths import node_id
from warren.broker.cluster.shard_leadership import ShardLeadership
from warren.broker.native.call import Call
from warren.broker.native.handler import refusal
from warren.broker.net.request import Answer, DeferredReply, Reply
from warren.broker.security.needs import check
from warren.broker.security.table import OWN
from warren.broker.services.turns import LOOP_CARRIED_SIZE_MAX, LOOP_ROWS_AT_ONCE, is_long
from warren.errors import NotInCluster, WarrenError, WrongCluster
from warren.protocol.api_keys import served
from warren.protocol.native.fetch_shard import fetched_shard_buffers, read_fetch_shard
from warren.protocol.native_messages import (
    DigestRecordsRequest,
    DigestRecordsResponse,
    FetchShardResponse,
    FetchStateRequest,
    HandOverShardRequest,
    HandOverShardResponse,
    JoinShardRequest,
    ListCopyRequest,
    ListCopyResponse,
    ListCopyResponseFile,
    ListStateRequest,
    SeeClusterRequest,
    SeeClusterResponse,
    SeeClusterResponseReplica,
    SeeClusterResponseShard,
)
from warren.protocol.native_schemas import NativeKey
from warren.protocol.schema_codec import message_buffers, read_request
from warren.protocol.wire_struct import AnyRequest, NativeResponse
from warren.replication.codec import ShardRequest, ShardResponse, slave_request, wire_answer
from warren.replication.comparison import SLICE_SIZE_MAX
from warren.replication.messages import MasterAnswer

NOT_KNOWN: Final = -1


def _replica_of(call: Call) -> ReplicaNode:
    leadership = call.broker.leadership
    if not isinstance(leadership, ShardLeadership):
        raise NotInCluster
    return leadership.replica


async def ask_master(call: Call, request: ShardRequest) -> ShardResponse:
    """Answers a request of a slave to join, or for state files."""
    replica = _replica_of(call)
    if isinstance(request, JoinShardRequest):
        _check_cluster(replica, request)
        call.peer.is_replica = True
    answer: asyncio.Future[MasterAnswer] = asyncio.get_running_loop().create_future()

    def answered(outcome: MasterAnswer) -> None:
        if not answer.done():
            answer.set_result(outcome)

    replica.answer(slave_request(request), answered)
    return wire_answer(await answer, type(request).response)


class FetchReply(DeferredReply):
    """The answer to a fetch of a slave, made in the step of the event loop in which the master gives it.

    A fetch waits until there is something to send, or for a part of the lease. Each put of a client waits for one, and
    a task and a future cost 40 µs more.
    """

    __slots__ = ("_call", "early")

    def __init__(self, call: Call) -> None:
        self._call = call
        self.early: Answer | BaseException = None
        """The outcome if the master answered before the connection has this reply."""
        self.on_done = self._keep

    def _keep(self, outcome: Answer | BaseException) -> None:
        self.early = outcome

    def answered(self, answer: MasterAnswer) -> None:
        """Takes the answer of the master."""
        response = wire_answer(answer, FetchShardResponse)
        assert isinstance(response, FetchShardResponse)
        if len(response.items) + len(response.committed) > LOOP_ROWS_AT_ONCE:
            self._call.broker.tasks.create_task(self._finish_aside(response))
        else:
            self.finish(fetched_shard_buffers, response)

    async def _finish_aside(self, response: FetchShardResponse) -> None:
        try:
            outcome: Answer | BaseException = await self._call.broker.aside(fetched_shard_buffers, response)
        except Exception as error:  # noqa: BLE001  # the connection gets it
            outcome = error
        self.on_done(outcome)


def fetch_shard(call: Call) -> Reply:
    """Answers a fetch of a slave."""
    request = call.request
    served(request.api_key, request.version)
    decoded = read_fetch_shard(request.body)
    try:
        check(call, OWN[request.api_key], decoded)
        replica = _replica_of(call)
        reply = FetchReply(call)
        replica.answer(slave_request(decoded), reply.answered)
    except WarrenError as error:
        return refusal(call, FetchShardResponse, error)
    if isinstance(reply.early, BaseException):
        raise reply.early
    return reply if reply.early is None else reply.early


def _check_cluster(replica: ReplicaNode, request: JoinShardRequest) -> None:
    setup = replica.setup
    if (request.cluster, request.shard) != (setup.cluster, setup.shard):
        raise WrongCluster(
            f"the broker at {setup.host}:{setup.port} belongs to shard {setup.shard} of the cluster {setup.cluster}, "
            f"and a replica of shard {request.shard} of the cluster {request.cluster} wants to follow it",
            "two brokers have the same address, or use different registries",
        )


def hand_over(call: Call, request: HandOverShardRequest) -> HandOverShardResponse:
    """Begins to hand the lead over. The connection ends when it is done, because this process ends."""
    return HandOverShardResponse(replica=_replica_of(call).hand_over(request.replica))


def see_cluster(call: Call, request: SeeClusterRequest) -> SeeClusterResponse:
    """Returns the shards of the cluster as this broker sees them; none if it serves its store alone."""
    leadership = call.broker.leadership
    if not isinstance(leadership, ShardLeadership):
        return SeeClusterResponse(cluster=call.broker.cluster_id)
    cluster = leadership.replica.setup.cluster
    return SeeClusterResponse(cluster=cluster, node=leadership.node, shards=[_shard(leadership)])


def _shard(leadership: ShardLeadership) -> SeeClusterResponseShard:
    replica = leadership.replica
    setup, settings, view, master = replica.setup, replica.settings, replica.view, replica.master
    insync = set(leadership.insync)
    observers = () if settings is None else settings.observers
    numbers = () if settings is None else (*settings.replicas, *observers)
    rows = []
    for number in numbers:
        living, node = replica.living.get(number), node_id(setup.shard, number)
        row = SeeClusterResponseReplica(replica=number, node=node, is_observer=number in observers)
        row.is_alive, row.is_insync = living is not None, node in insync
        row.acknowledged = row.silent_ms = NOT_KNOWN
        if living is not None:
            row.host, row.port = living.host, living.port
            if master is not None:
                row.acknowledged = master.barriers.last
                if number != setup.replica:
                    row.acknowledged = master.barriers.acked_by(living.identity)
                row.silent_ms = leadership.silent_ms(number)
        rows.append(row)
    leader = NOT_KNOWN if view is None or view.state.master is None else view.state.master
    return SeeClusterResponseShard(
        shard=setup.shard,
        epoch=leadership.epoch,
        master=leader if leadership.leader != NOT_KNOWN else NOT_KNOWN,
        min_insync=0 if settings is None else settings.min_insync,
        barrier=NOT_KNOWN if master is None else master.barriers.last,
        replicas=rows,
    )


async def list_copy(call: Call, request: ListCopyRequest) -> ListCopyResponse:
    """Returns digests of what this replica has, read on a thread."""
    disk = _replica_of(call).disk
    rows, is_complete = await call.broker.in_thread(disk.list_copy, request.after, request.paths)
    return ListCopyResponse(files=[ListCopyResponseFile(*row) for row in rows], is_complete=is_complete)


async def digest_records(call: Call, request: DigestRecordsRequest) -> DigestRecordsResponse:
    """Returns the digest of a slice of one log of this replica, read on a thread."""
    disk, size_max = _replica_of(call).disk, min(request.bytes_max, SLICE_SIZE_MAX)
    digest = await call.broker.in_thread(
        disk.digest_records, request.log, request.start, request.end, size_max, is_checked=request.is_checked
    )
    if digest is None:
        return DigestRecordsResponse()
    first, end, following, data = digest
    return DigestRecordsResponse(is_there=True, first=first, end=end, next=following, digest=data)


def shard_handler(
    kind: type[AnyRequest], handle: Callable[[Call, AnyRequest], NativeResponse | Awaitable[NativeResponse]]
) -> Callable[[Call], Awaitable[Answer]]:
    """Wraps a handler of decoded requests as a handler of bytes. It uses nothing of a store, which a slave has not."""

    async def answer(call: Call) -> Answer:
        request = call.request
        served(request.api_key, request.version)
        if len(request.body) > LOOP_CARRIED_SIZE_MAX:
            decoded = await call.broker.aside(read_request, kind, request.version, request.body)
        else:
            decoded = read_request(kind, request.version, request.body)
        try:
            check(call, OWN[request.api_key], decoded)
            response = handle(call, decoded)
            response = await response if inspect.isawaitable(response) else response
        except WarrenError as error:
            return refusal(call, kind.response, error)
        if is_long(response):
            return await call.broker.aside(message_buffers, response, request.version)
        return message_buffers(response, request.version)

    return answer


SHARD_HANDLERS: Final[Mapping[int, Callable[[Any], Reply]]] = MappingProxyType(
    {
        NativeKey.SEE_CLUSTER: shard_handler(SeeClusterRequest, see_cluster),
        NativeKey.JOIN_SHARD: shard_handler(JoinShardRequest, ask_master),
        NativeKey.LIST_STATE: shard_handler(ListStateRequest, ask_master),
        NativeKey.FETCH_STATE: shard_handler(FetchStateRequest, ask_master),
        NativeKey.FETCH_SHARD: fetch_shard,
        NativeKey.HAND_OVER_SHARD: shard_handler(HandOverShardRequest, hand_over),
        NativeKey.LIST_COPY: shard_handler(ListCopyRequest, list_copy),
        NativeKey.DIGEST_RECORDS: shard_handler(DigestRecordsRequest, digest_records),
    }
)
"""The handlers of a shard's own calls, by API key. A slave has them, too."""
