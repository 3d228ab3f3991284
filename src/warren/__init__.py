"""Warren: a durable message log for Python."""

from __future__ import annotations

from queue import Empty, Full
from typing import TYPE_CHECKING

from warren import aio
from warren.errors import WarrenError
from warren.message import Message, Place, Receipt, TopicReceipt
from warren.queue.standalone.file_queue import open_file
from warren.queue.standalone.handover import handover
from warren.queue.standalone.memory import memory
from warren.queue.topic import Topic
from warren.transaction.store import Store, open

if TYPE_CHECKING:
    import os
    import ssl

    from warren.client.store import RemoteStore
    from warren.clock import Duration

__all__ = [
    "Empty",
    "Full",
    "Message",
    "Place",
    "Receipt",
    "Store",
    "Topic",
    "TopicReceipt",
    "WarrenError",
    "aio",
    "connect",
    "handover",
    "memory",
    "open",
    "open_file",
]
__version__ = "0.1.0"


def connect(
    address: str,
    *,
    timeout: Duration | None = None,
    wait: Duration = 0.0,
    tls: ssl.SSLContext | bool | None = None,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    rack: str | None = None,
) -> RemoteStore:
    """Returns a client of the store behind the broker at `address`, such as "localhost:9092". It has the methods of an
    opened store.

    For a cluster name some of its brokers, as in "a:9092,b:9092,c:9092". The client follows the master by itself. With
    `rack` it reads messages from a slave with this `cluster.rack`, and from the master if there is none.
    A call that gets no answer within `timeout` seconds raises ConnectionLost. If no broker answers at `address`,
    `connect` raises ConnectionLost immediately, or after it has tried for `wait` seconds. It raises UserWanted if the
    broker requires a user and none is given, and WrongTransport if only one side uses TLS.

    With `tls=True` the broker must show a certificate that this machine trusts; with `ca`, one that was signed by a
    certificate in that file. `certificate` and `key` are the files that the client shows in turn. With a user and a
    password the client logs in: by SCRAM if the broker accepts it, by PLAIN only over TLS, or by the named `mechanism`.
    """
    # Imported here because a program that only opens embedded stores needs no network.
    from warren.client import store

    return store.connect(
        address,
        timeout=timeout,
        wait=wait,
        tls=tls,
        ca=ca,
        certificate=certificate,
        key=key,
        user=user,
        password=password,
        mechanism=mechanism,
        rack=rack,
    )
