"""What clients send to make a broker hold memory."""

from __future__ import annotations

import socket

from tests.support.broker.calls import Caller
from tests.support.broker.running import PATIENCE_S
from tests.support.kafka_batches import batch_of
from warren.protocol.api_keys import ApiKey
from warren.protocol.primitives import INT32


def beginning(address: tuple[str, int], size: int, sent: int) -> socket.socket:
    """A connection that announces a request of `size` bytes, and sends some of it."""
    client = socket.create_connection(address, PATIENCE_S)
    client.sendall(INT32.pack(size) + bytes(min(sent, 1 << 16)))
    client.setblocking(False)
    try:
        for _ in range(sent >> 16):
            client.send(bytes(1 << 16))
    except BlockingIOError:
        # The broker does not read it.
        pass
    client.setblocking(True)
    return client


def joined(caller: Caller, group: str, size: int, client: int = 0) -> int:
    """The error of a JoinGroup with so many bytes of metadata."""
    values = {
        "group_id": group,
        "session_timeout_ms": 1_800_000,
        "rebalance_timeout_ms": 1_800_000,
        "member_id": "",
        "protocol_type": f"own-{client}",
        "protocols": [{"name": "range", "metadata": bytes(size)}],
    }
    code: int = caller.call(ApiKey.JOIN_GROUP, 2, values).error_code
    return code


def bomb(size: int, compression: int) -> bytes:
    """A batch of one record of `size` zeros, packed."""
    return batch_of([(None, bytes(size), [])], compression=compression)
