"""Who answers which of our own calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.native import append, delays, groups, queues, read, topics, transactions, views
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
from warren.protocol.native_schemas import OwnKey

OWN_HANDLERS: Final[Mapping[int, Callable[[Call], Reply]]] = MappingProxyType(
    {
        OwnKey.APPEND: append.append_handler,
        OwnKey.OPEN_SESSION: own(OpenSessionRequest, topics.open_session),
        OwnKey.CLOSE_HANDLE: own(CloseHandleRequest, topics.close_handle),
        OwnKey.LIST_TOPICS: own(ListTopicsRequest, topics.list_topics),
        OwnKey.OPEN_TOPIC: own(OpenTopicRequest, topics.open_topic),
        OwnKey.CONFIGURE_TOPIC: own(ConfigureTopicRequest, topics.configure_topic),
        OwnKey.DELETE_TOPIC: own(DeleteTopicRequest, topics.delete_topic),
        OwnKey.RETIRE_TOPIC: own(RetireTopicRequest, topics.retire_topic),
        OwnKey.READ: own(ReadRequest, read.read),
        OwnKey.FIND_TIME: own(FindTimeRequest, read.find_time),
        OwnKey.SCAN: own(ScanRequest, read.scan),
        OwnKey.PARK: own(ParkRequest, delays.park),
        OwnKey.LIST_PARKED: own(ListParkedRequest, delays.list_parked),
        OwnKey.CANCEL_PARKED: own(CancelParkedRequest, delays.cancel_parked),
        OwnKey.OPEN_GROUP: own(OpenGroupRequest, groups.open_group),
        OwnKey.CONFIGURE_GROUP: own(ConfigureGroupRequest, groups.configure_group),
        OwnKey.DELETE_GROUP: own(DeleteGroupRequest, groups.delete_group),
        OwnKey.DESCRIBE_GROUP: own(DescribeGroupRequest, groups.describe_group),
        OwnKey.READ_GROUP: own(ReadGroupRequest, groups.read_group),
        OwnKey.COMMIT_GROUP: own(CommitGroupRequest, groups.commit_group),
        OwnKey.SEEK_GROUP: own(SeekGroupRequest, groups.seek_group),
        OwnKey.TAKE: own(TakeRequest, groups.take),
        OwnKey.SETTLE: own(SettleRequest, groups.settle),
        OwnKey.REDRIVE: own(RedriveRequest, groups.redrive),
        OwnKey.BEGIN_TRANSACTION: own(BeginTransactionRequest, transactions.begin_transaction),
        OwnKey.CHANGE_TRANSACTION: own(ChangeTransactionRequest, transactions.change_transaction),
        OwnKey.END_TRANSACTION: own(EndTransactionRequest, transactions.end_transaction),
        OwnKey.COMMIT_BATCH: own(CommitBatchRequest, transactions.commit_batch),
        OwnKey.RECOVER: own(RecoverRequest, transactions.recover),
        OwnKey.OPEN_PRODUCER: own(OpenProducerRequest, transactions.open_producer),
        OwnKey.NUMBERED_PUT: own(NumberedPutRequest, transactions.numbered_put),
        OwnKey.OPEN_QUEUE: own(OpenQueueRequest, queues.open_queue),
        OwnKey.USE_QUEUE: own(UseQueueRequest, queues.use_queue),
        OwnKey.STATISTICS: own(StatisticsRequest, views.statistics),
        OwnKey.SEE_GROUP: own(SeeGroupRequest, views.see_group),
        OwnKey.LIST_DEAD: own(ListDeadRequest, views.list_dead),
    }
)
