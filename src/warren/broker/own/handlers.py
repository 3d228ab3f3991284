"""Who answers which of our own calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.call import Handler
from warren.broker.own import appending, reading, stores
from warren.broker.own.answering import OwnHandler, own
from warren.protocol.own_schemas import OwnKey

_OWN: Final[Mapping[OwnKey, OwnHandler]] = {
    OwnKey.OPEN_SESSION: stores.open_session,
    OwnKey.CLOSE_HANDLE: stores.close_handle,
    OwnKey.LIST_TOPICS: stores.list_topics,
    OwnKey.OPEN_TOPIC: stores.open_topic,
    OwnKey.CONFIGURE_TOPIC: stores.configure_topic,
    OwnKey.DELETE_TOPIC: stores.delete_topic,
    OwnKey.APPEND: appending.append,
    OwnKey.READ: reading.read,
    OwnKey.FIND_TIME: reading.find_time,
    OwnKey.SCAN: reading.scan,
}
OWN_HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType({key: own(handle) for key, handle in _OWN.items()})
