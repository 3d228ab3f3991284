"""The table of handlers of Warren's own calls, by API key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.native import append, dead_letters, delays, groups, queues, read, topics, transactions, views
from warren.broker.native.call import Call
from warren.broker.native.handler import own
from warren.broker.net.request import Reply
from warren.protocol.native_messages import (
    BeginTransactionRequest,
    CancelParkedRequest,
    ChangeTransactionRequest,
    CloseHandleRequest,
    CommitBatchRequest,
    CommitGroupRequest,
    ConfigureGroupRequest,
    ConfigureTopicRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    DescribeGroupRequest,
    EndTransactionRequest,
    FindReplicasRequest,
    FindTimeRequest,
    ListDeadRequest,
    ListParkedRequest,
    ListTopicsRequest,
    NumberedPutRequest,
    OpenGroupRequest,
    OpenProducerRequest,
    OpenQueueRequest,
    OpenSessionRequest,
    OpenTopicRequest,
    ParkRequest,
    ReadGroupRequest,
    ReadRequest,
    RecoverRequest,
    RedriveRequest,
    RetireTopicRequest,
    ScanRequest,
    SeeGroupRequest,
    SeekGroupRequest,
    SettleRequest,
    StatisticsRequest,
    TakeRequest,
    UseQueueRequest,
)
from warren.protocol.native_schemas import NativeKey

NATIVE_HANDLERS: Final[Mapping[int, Callable[[Call], Reply]]] = MappingProxyType(
    {
        NativeKey.APPEND: append.append_handler,
        NativeKey.OPEN_SESSION: own(OpenSessionRequest, topics.open_session),
        NativeKey.CLOSE_HANDLE: own(CloseHandleRequest, topics.close_handle),
        NativeKey.LIST_TOPICS: own(ListTopicsRequest, topics.list_topics),
        NativeKey.OPEN_TOPIC: own(OpenTopicRequest, topics.open_topic),
        NativeKey.CONFIGURE_TOPIC: own(ConfigureTopicRequest, topics.configure_topic),
        NativeKey.DELETE_TOPIC: own(DeleteTopicRequest, topics.delete_topic),
        NativeKey.RETIRE_TOPIC: own(RetireTopicRequest, topics.retire_topic),
        NativeKey.READ: own(ReadRequest, read.read),
        NativeKey.FIND_TIME: own(FindTimeRequest, read.find_time),
        NativeKey.SCAN: own(ScanRequest, read.scan),
        NativeKey.PARK: own(ParkRequest, delays.park),
        NativeKey.LIST_PARKED: own(ListParkedRequest, delays.list_parked),
        NativeKey.CANCEL_PARKED: own(CancelParkedRequest, delays.cancel_parked),
        NativeKey.OPEN_GROUP: own(OpenGroupRequest, groups.open_group),
        NativeKey.CONFIGURE_GROUP: own(ConfigureGroupRequest, groups.configure_group),
        NativeKey.DELETE_GROUP: own(DeleteGroupRequest, groups.delete_group),
        NativeKey.DESCRIBE_GROUP: own(DescribeGroupRequest, groups.describe_group),
        NativeKey.READ_GROUP: own(ReadGroupRequest, groups.read_group),
        NativeKey.COMMIT_GROUP: own(CommitGroupRequest, groups.commit_group),
        NativeKey.SEEK_GROUP: own(SeekGroupRequest, groups.seek_group),
        NativeKey.TAKE: own(TakeRequest, groups.take),
        NativeKey.SETTLE: own(SettleRequest, groups.settle),
        NativeKey.REDRIVE: own(RedriveRequest, dead_letters.redrive),
        NativeKey.BEGIN_TRANSACTION: own(BeginTransactionRequest, transactions.begin_transaction),
        NativeKey.CHANGE_TRANSACTION: own(ChangeTransactionRequest, transactions.change_transaction),
        NativeKey.END_TRANSACTION: own(EndTransactionRequest, transactions.end_transaction),
        NativeKey.COMMIT_BATCH: own(CommitBatchRequest, transactions.commit_batch),
        NativeKey.RECOVER: own(RecoverRequest, transactions.recover),
        NativeKey.OPEN_PRODUCER: own(OpenProducerRequest, transactions.open_producer),
        NativeKey.NUMBERED_PUT: own(NumberedPutRequest, transactions.numbered_put),
        NativeKey.OPEN_QUEUE: own(OpenQueueRequest, queues.open_queue),
        NativeKey.USE_QUEUE: own(UseQueueRequest, queues.use_queue),
        NativeKey.STATISTICS: own(StatisticsRequest, views.statistics),
        NativeKey.SEE_GROUP: own(SeeGroupRequest, views.see_group),
        NativeKey.LIST_DEAD: own(ListDeadRequest, views.list_dead),
        NativeKey.FIND_REPLICAS: own(FindReplicasRequest, read.find_replicas),
    }
)
