"""Converts requests of slaves and answers of the master to messages of the wire and back. Copies no data of ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from warren.errors import MalformedRequest, MalformedState
from warren.protocol.native_messages import (
    FetchShardRequest,
    FetchShardResponse,
    FetchShardResponseCommitted,
    FetchShardResponseItem,
    FetchStateRequest,
    FetchStateResponse,
    FetchStateResponseFile,
    JoinShardRequest,
    JoinShardRequestLog,
    JoinShardResponse,
    JoinShardResponseLog,
    ListStateRequest,
    ListStateResponse,
    ListStateResponseFile,
)
from warren.protocol.primitives import Buffer
from warren.replication.changes import (
    Change,
    CommittedEnds,
    FileContent,
    FileGone,
    FilePatch,
    Item,
    LogFacts,
    LogRange,
    NewLog,
    RemovedLog,
)
from warren.replication.epochs import Epochs
from warren.replication.messages import (
    FetchShard,
    FetchState,
    JoinShard,
    LinkId,
    ListState,
    MasterAnswer,
    Refusal,
    ShardFetched,
    ShardJoined,
    ShardRefused,
    SlaveRequest,
    StateFetched,
    StateListed,
)
from warren.replication.shard_state import Identity

ShardRequest: TypeAlias = JoinShardRequest | ListStateRequest | FetchStateRequest | FetchShardRequest
ShardResponse: TypeAlias = JoinShardResponse | ListStateResponse | FetchStateResponse | FetchShardResponse
NO_REFUSAL: Final = ""

# --- Requests ---


def wire_request(request: SlaveRequest, cluster: str, shard: int) -> ShardRequest:
    """Returns a request as it is sent. JoinShard also names the cluster and the shard that the slave belongs to."""
    head = (*request.identity, *request.link, request.epoch)
    if isinstance(request, JoinShard):
        logs = [JoinShardRequestLog(log, request.first.get(log, 0), tail) for log, tail in request.tails.items()]
        return JoinShardRequest(*head, cluster, shard, request.epochs.to_json(), logs)
    if isinstance(request, ListState):
        return ListStateRequest(*head, request.after)
    if isinstance(request, FetchState):
        return FetchStateRequest(*head, list(request.paths))
    return FetchShardRequest(*head, request.follows, request.acked, request.size_max)


def slave_request(request: ShardRequest) -> SlaveRequest:
    """Returns the request of a slave that was received. Raises MalformedRequest if a field is not valid."""
    identity = Identity(request.replica, request.incarnation, request.boot)
    link = LinkId(request.nonce, request.link)
    if isinstance(request, JoinShardRequest):
        return JoinShard(
            identity=identity,
            link=link,
            epoch=request.epoch,
            epochs=_epochs(request.epochs),
            first={each.log: each.first for each in request.logs if each.first},
            tails={each.log: each.tail for each in request.logs},
        )
    if isinstance(request, ListStateRequest):
        return ListState(identity=identity, link=link, epoch=request.epoch, after=request.after)
    if isinstance(request, FetchStateRequest):
        return FetchState(identity=identity, link=link, epoch=request.epoch, paths=request.paths)
    return FetchShard(
        identity=identity,
        link=link,
        epoch=request.epoch,
        follows=request.follows,
        acked=request.acknowledged,
        size_max=request.bytes_max,
    )


def _epochs(data: bytes) -> Epochs:
    try:
        return Epochs.from_json(data)
    except MalformedState as error:
        raise MalformedRequest("a list of epochs", str(error)) from error


# --- Answers ---


def wire_answer(answer: MasterAnswer, response: type[Any]) -> ShardResponse:
    """Returns an answer as it is sent. `response` is the class of responses to the request; a refusal has it, too."""
    if isinstance(answer, ShardRefused):
        refused: ShardResponse = response(refusal=answer.reason.value)
        refused.epoch, (refused.nonce, refused.link) = answer.epoch, answer.link
        return refused
    head = (None, NO_REFUSAL, answer.epoch, *answer.link)
    if isinstance(answer, ShardJoined):
        cuts = answer.cuts or {}
        joined = [JoinShardResponseLog(log, answer.first.get(log, 0), cut) for log, cut in cuts.items()]
        return JoinShardResponse(*head, answer.epochs.to_json(), answer.cuts is not None, joined, answer.barrier)
    if isinstance(answer, StateListed):
        digests = [ListStateResponseFile(path, digest) for path, digest in answer.digests.items()]
        return ListStateResponse(*head, answer.after, digests, answer.is_complete)
    if isinstance(answer, StateFetched):
        contents = [FetchStateResponseFile(path, content) for path, content in answer.contents.items()]
        return FetchStateResponse(*head, contents)
    items: list[FetchShardResponseItem] = []
    committed: list[FetchShardResponseCommitted] = []
    for item in answer.items:
        if isinstance(item, CommittedEnds):
            committed += [FetchShardResponseCommitted(log, end) for log, end in item.ends.items()]
        else:
            items.append(_WRITERS[type(item)](item))
    return FetchShardResponse(*head, answer.number, answer.barrier, items, committed)


def master_answer(response: ShardResponse) -> MasterAnswer:
    """Returns the answer that was received. Raises MalformedRequest if a field is not valid."""
    epoch, link = response.epoch, LinkId(response.nonce, response.link)
    if response.refusal != NO_REFUSAL:
        try:
            return ShardRefused(epoch=epoch, link=link, reason=Refusal(response.refusal))
        except ValueError as error:
            raise MalformedRequest("a refusal", str(error)) from error
    if isinstance(response, JoinShardResponse):
        return ShardJoined(
            epoch=epoch,
            link=link,
            epochs=_epochs(response.epochs),
            first={each.log: each.first for each in response.logs if each.first},
            cuts={each.log: each.cut for each in response.logs} if response.is_common else None,
            barrier=response.barrier,
        )
    if isinstance(response, ListStateResponse):
        digests = {each.path: each.digest for each in response.files}
        is_complete = response.is_complete or not digests
        return StateListed(epoch=epoch, link=link, after=response.after, digests=digests, is_complete=is_complete)
    if isinstance(response, FetchStateResponse):
        return StateFetched(epoch=epoch, link=link, contents={each.path: each.content for each in response.files})
    items: list[Item] = [_item(each) for each in response.items]
    if response.committed:
        items.append(CommittedEnds({each.log: each.end for each in response.committed}))
    return ShardFetched(epoch=epoch, link=link, number=response.number, barrier=response.barrier, items=items)


# --- Items of a round: the kind of an item decides which of its fields are used ---

RANGE: Final = 0
FILE_CONTENT: Final = 1
FILE_PATCH: Final = 2
FILE_GONE: Final = 3
LOG_FACTS: Final = 4
NEW_LOG: Final = 5
REMOVED_LOG: Final = 6


def _wire_range(change: LogRange) -> FetchShardResponseItem:
    return FetchShardResponseItem(
        RANGE, change.log, change.block, change.position, change.first, change.end, 0, change.data
    )


_WRITERS: Final[Mapping[type[Any], Callable[[Any], FetchShardResponseItem]]] = MappingProxyType(
    {
        LogRange: _wire_range,
        FileContent: lambda change: FetchShardResponseItem(FILE_CONTENT, change.path, data=change.data),
        FilePatch: lambda change: FetchShardResponseItem(
            FILE_PATCH, change.path, position=change.position, data=change.data
        ),
        FileGone: lambda change: FetchShardResponseItem(FILE_GONE, change.path),
        LogFacts: lambda change: FetchShardResponseItem(
            LOG_FACTS, change.log, first=change.first, number=change.flag, data=change.extension
        ),
        NewLog: lambda change: FetchShardResponseItem(NEW_LOG, change.log, number=change.format),
        RemovedLog: lambda change: FetchShardResponseItem(REMOVED_LOG, change.log),
    }
)


def _data(item: FetchShardResponseItem) -> bytes | memoryview:
    data: Buffer | Sequence[Buffer] | None = item.data
    return data if isinstance(data, bytes | memoryview) else b""


def _range_of(item: FetchShardResponseItem) -> LogRange:
    data = _data(item)
    return LogRange(item.subject, item.block, item.position, item.first, item.end, len(data), data)


_READERS: Final[Mapping[int, Callable[[FetchShardResponseItem], Change]]] = MappingProxyType(
    {
        RANGE: _range_of,
        FILE_CONTENT: lambda item: FileContent(item.subject, bytes(_data(item))),
        FILE_PATCH: lambda item: FilePatch(item.subject, item.position, bytes(_data(item))),
        FILE_GONE: lambda item: FileGone(item.subject),
        LOG_FACTS: lambda item: LogFacts(item.subject, item.first, item.number, bytes(_data(item))),
        NEW_LOG: lambda item: NewLog(item.subject, item.number),
        REMOVED_LOG: lambda item: RemovedLog(item.subject),
    }
)


def _item(item: FetchShardResponseItem) -> Change:
    read = _READERS.get(item.kind)
    if read is None:
        raise MalformedRequest("a change of a store", f"kind {item.kind} is not known to this release")
    return read(item)
