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
) -> RemoteStore:
    """The store behind the broker at `address`, such as "localhost:9092": what `open` gives, over the network.

    A call that gets no answer within `timeout` seconds is ConnectionLost. If no broker answers at `address`, this call
    raises ConnectionLost at once, or after `wait` seconds in which it keeps trying. Raises UserWanted if the broker
    wants a user and none is given, and WrongTransport if it uses TLS and the client does not, or the reverse.

    With `tls=True` the broker shows a certificate that this machine trusts, with `ca` one that was signed by those in
    that file; `certificate` and `key` are files to show in turn. With a user and a password the client logs in: by
    SCRAM if the broker takes it, by PLAIN only over TLS, or by the `mechanism` that is named.
    """
    # Imported here because a program that opens only stores of its own needs no network.
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
    )
