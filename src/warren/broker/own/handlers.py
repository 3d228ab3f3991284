"""Who answers which of our own calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.call import AnyHandler
from warren.broker.own import appending, groups, lone, parking, queues, reading, seeing, stores, transactions
from warren.broker.own.answering import OwnHandler, own
from warren.broker.statistics import statistics
from warren.protocol.own_schemas import OwnKey

_OWN: Final[Mapping[OwnKey, OwnHandler]] = {
    OwnKey.OPEN_SESSION: stores.open_session,
    OwnKey.CLOSE_HANDLE: stores.close_handle,
    OwnKey.LIST_TOPICS: stores.list_topics,
    OwnKey.OPEN_TOPIC: stores.open_topic,
    OwnKey.CONFIGURE_TOPIC: stores.configure_topic,
    OwnKey.DELETE_TOPIC: stores.delete_topic,
    OwnKey.RETIRE_TOPIC: stores.retire_topic,
    OwnKey.APPEND: appending.append,
    OwnKey.READ: reading.read,
    OwnKey.FIND_TIME: reading.find_time,
    OwnKey.SCAN: reading.scan,
    OwnKey.PARK: parking.park,
    OwnKey.LIST_PARKED: parking.list_parked,
    OwnKey.CANCEL_PARKED: parking.cancel_parked,
    OwnKey.OPEN_GROUP: groups.open_group,
    OwnKey.CONFIGURE_GROUP: groups.configure_group,
    OwnKey.DELETE_GROUP: groups.delete_group,
    OwnKey.DESCRIBE_GROUP: groups.describe_group,
    OwnKey.READ_GROUP: groups.read_group,
    OwnKey.COMMIT_GROUP: groups.commit_group,
    OwnKey.SEEK_GROUP: groups.seek_group,
    OwnKey.TAKE: groups.take,
    OwnKey.SETTLE: groups.settle,
    OwnKey.REDRIVE: groups.redrive,
    OwnKey.BEGIN_TRANSACTION: transactions.begin_transaction,
    OwnKey.CHANGE_TRANSACTION: transactions.change_transaction,
    OwnKey.END_TRANSACTION: transactions.end_transaction,
    OwnKey.COMMIT_BATCH: transactions.commit_batch,
    OwnKey.RECOVER: transactions.recover,
    OwnKey.OPEN_PRODUCER: transactions.open_producer,
    OwnKey.NUMBERED_PUT: transactions.numbered_put,
    OwnKey.OPEN_QUEUE: queues.open_queue,
    OwnKey.USE_QUEUE: queues.use_queue,
    OwnKey.STATISTICS: statistics,
    OwnKey.SEE_GROUP: seeing.see_group,
    OwnKey.LIST_DEAD: seeing.list_dead,
}
OWN_HANDLERS: Final[Mapping[int, AnyHandler]] = MappingProxyType(
    {**{key: own(handle) for key, handle in _OWN.items()}, OwnKey.APPEND: lone.shortly(own(appending.append))}
)
