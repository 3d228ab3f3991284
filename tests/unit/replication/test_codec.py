"""Every request and answer between replicas is the same after encoding and decoding, and ranges are not copied."""

from __future__ import annotations

from typing import Any

import pytest

from warren.errors import MalformedRequest
from warren.protocol.native_messages import FetchShardRequest, FetchShardResponse, FetchShardResponseItem
from warren.protocol.schema_codec import message_buffers, read_request, read_response
from warren.replication.changes import (
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
from warren.replication.codec import ShardRequest, master_answer, slave_request, wire_answer, wire_request
from warren.replication.epochs import Epoch, Epochs
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

VERSION = 0
ME, LINK = Identity(2, "disk", "boot"), LinkId("process", 7)
EPOCHS = Epochs.founded("").begun(Epoch(epoch=3, master=1, began="now", tails={"topics/a/0@1": 5}))
REQUESTS: list[SlaveRequest] = [
    JoinShard(identity=ME, link=LINK, epoch=3, epochs=EPOCHS, first={"a@1": 2}, tails={"a@1": 5, "b@1": 0}),
    ListState(identity=ME, link=LINK, epoch=3, after="topics/a"),
    FetchState(identity=ME, link=LINK, epoch=3, paths=["topics/a/topic.json", "users.json"]),
    FetchShard(identity=ME, link=LINK, epoch=3, follows=4, acked=812, size_max=1 << 20),
]
ITEMS: list[Item] = [
    LogRange("a@1", 0, 128, 3, 5, 6, memoryview(b"record")),
    FileContent("users.json", b"{}"),
    FilePatch("group.reader", 512, b"slot"),
    FileGone("rights.json"),
    LogFacts("a@1", 2, 1, b"extension"),
    NewLog("b@1", 2),
    RemovedLog("c@1"),
    CommittedEnds({"a@1": 5}),
]
ANSWERS: list[tuple[SlaveRequest, MasterAnswer]] = [
    (
        REQUESTS[0],
        ShardJoined(epoch=3, link=LINK, epochs=EPOCHS, first={"a@1": 2}, cuts={"a@1": 4, "b@1": 0}, barrier=9),
    ),
    (REQUESTS[0], ShardJoined(epoch=3, link=LINK, epochs=EPOCHS, first={}, cuts=None, barrier=0)),
    (REQUESTS[1], StateListed(epoch=3, link=LINK, after="", digests={"users.json": b"digest"}, is_complete=False)),
    (REQUESTS[2], StateFetched(epoch=3, link=LINK, contents={"users.json": b"{}", "gone": None})),
    (REQUESTS[3], ShardFetched(epoch=3, link=LINK, number=5, barrier=813, items=ITEMS)),
    *((each, ShardRefused(epoch=4, link=LINK, reason=Refusal.JOIN_AGAIN)) for each in REQUESTS),
]


def over_the_wire(message: Any, read: Any) -> Any:
    return read(type(message), VERSION, b"".join(message_buffers(message, VERSION)))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_is_the_same_after_encoding_and_decoding(request_: SlaveRequest) -> None:
    wire = wire_request(request_, "cluster", 0)

    assert slave_request(over_the_wire(wire, read_request)) == request_


@pytest.mark.parametrize(("request_", "answer"), ANSWERS, ids=lambda each: type(each).__name__)
def test_an_answer_is_the_same_after_encoding_and_decoding(request_: SlaveRequest, answer: MasterAnswer) -> None:
    request: ShardRequest = wire_request(request_, "cluster", 0)

    arrived = master_answer(over_the_wire(wire_answer(answer, type(request).response), read_response))

    assert arrived == answer


def test_a_join_names_its_cluster_and_shard() -> None:
    wire = wire_request(REQUESTS[0], "cluster", 3)

    assert (wire.cluster, wire.shard) == ("cluster", 3)  # type: ignore[union-attr]


def test_the_data_of_a_range_is_sent_and_received_without_a_copy() -> None:
    block = bytearray(b"x" * (1 << 20))
    answer = ShardFetched(
        epoch=1, link=LINK, number=1, barrier=1, items=[LogRange("a", 0, 0, 0, 1, len(block), memoryview(block))]
    )

    buffers = message_buffers(wire_answer(answer, FetchShardResponse), VERSION)
    frame = b"".join(buffers)
    arrived = master_answer(read_response(FetchShardResponse, VERSION, frame))

    assert any(isinstance(each, memoryview) and each.obj is block for each in buffers)
    assert isinstance(arrived, ShardFetched)
    assert isinstance(arrived.items[0], LogRange)
    assert isinstance(arrived.items[0].data, memoryview)
    assert arrived.items[0].data.obj is frame


def test_a_list_without_files_is_complete() -> None:
    listed = StateListed(epoch=1, link=LINK, after="z", digests={}, is_complete=False)

    arrived = master_answer(wire_answer(listed, type(wire_request(REQUESTS[1], "", 0)).response))

    # Otherwise the slave would ask for the files after a path that it does not have.
    assert isinstance(arrived, StateListed)
    assert arrived.is_complete


@pytest.mark.parametrize(
    "response",
    [FetchShardResponse(items=[FetchShardResponseItem(kind=99)]), FetchShardResponse(refusal="no_such_refusal")],
)
def test_an_answer_with_an_unknown_kind_or_refusal_is_refused(response: FetchShardResponse) -> None:
    with pytest.raises(MalformedRequest):
        master_answer(response)


def test_a_malformed_list_of_epochs_is_refused() -> None:
    wire = wire_request(REQUESTS[0], "", 0)
    wire.epochs = b"?"  # type: ignore[union-attr]

    with pytest.raises(MalformedRequest, match="a list of epochs"):
        slave_request(wire)
    assert isinstance(slave_request(FetchShardRequest()), FetchShard)
