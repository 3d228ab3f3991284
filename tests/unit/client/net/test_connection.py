"""A connection to a broker that fails while it is made."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest

from warren.client.net.connection import Connection
from warren.errors import ConnectionLost


class BrokenSocket:
    """A socket whose peer disconnects as soon as it is connected."""

    def __init__(self) -> None:
        self.is_closed = False

    def setsockopt(self, *arguments: Any) -> None:
        raise OSError(22, "Invalid argument")

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["plain", "TLS"])
def test_a_socket_that_cannot_be_used_is_closed(monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext | None) -> None:
    broken = BrokenSocket()
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout_s: broken)

    with pytest.raises(ConnectionLost):
        Connection("localhost:9092", tls, 1.0)

    assert broken.is_closed
