"""The health checks: is the broker alive, and can it serve requests?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from warren.broker.cluster.slave_status import OBSERVER, SLAVE, SlaveStatus
from warren.broker.services.status import MASTER
from warren.errors import WarrenError
from warren.gateway.http.schemas import NUMBER_MAX, Fields, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.queue.state import paths
from warren.settings import Count, Flag, OneOf, OrNone
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.gateway")
HEALTH: Final = Fields({"is_alive": Value(Flag())}, required=("is_alive",))
READINESS: Final = Fields(
    {
        "is_ready": Value(Flag()),
        "reason": Text(1000),
        "role": Value(OneOf((MASTER, SLAVE, OBSERVER))),
        "epoch": Value(Count(0, NUMBER_MAX)),
        "master": Text(300, is_nullable=True),
        "behind": Value(OrNone(Count(0, NUMBER_MAX))),
    },
    required=("is_ready", "reason"),
)
"""A replica of a cluster adds its role; a slave also its master, and how many committed messages it does not have."""
PROBE: Final = b"ready\n"


async def healthz(request: HttpRequest) -> HttpReply:
    """Returns 200 whenever the event loop runs; checks nothing else."""
    return json_reply({"is_alive": True})


async def readyz(request: HttpRequest) -> HttpReply:
    """Returns 200 if the broker accepts requests and puts, and the store can be written to; otherwise 503."""
    standing = request.broker.leadership.standing
    more = {} if standing is None else {"role": MASTER, "epoch": standing.epoch}
    return _ready_reply(await readiness(request), more)


def slave_readyz(status: SlaveStatus) -> HttpReply:
    """Returns 200 if a replica that does not lead follows its master; otherwise 503 and the reason."""
    return _ready_reply(
        status.unready,
        {"role": status.role, "epoch": status.epoch, "master": status.master or None, "behind": status.behind},
    )


def _ready_reply(reason: str, more: Mapping[str, object]) -> HttpReply:
    return json_reply({"is_ready": not reason, "reason": reason, **more}, 503 if reason else 200)


async def readiness(request: HttpRequest) -> str:
    """Returns the reason why the broker cannot serve, or an empty text if it can."""
    broker = request.broker
    if broker.is_stopping:
        return "the broker is stopping"
    if broker.failed_logs:
        return f"{len(broker.failed_logs)} logs accept no puts since a sync failed; the broker tries to reopen them"
    refusal = broker.leadership.refusal_of_puts()
    if refusal is not None:
        return str(refusal)
    return await broker.in_thread(_unwritable, broker.store)


def _unwritable(store: Store) -> str:
    directory = paths.broker_directory(store.path)
    try:
        store.filesystem.make_directory(directory)
        file = store.filesystem.open(paths.readiness_file(directory), writable=True, create=True)
        try:
            file.write(0, PROBE)
        finally:
            file.close()
    except (WarrenError, OSError) as error:
        # The error names paths of the machine, so only the log shows it, not the reply.
        LOGGER.warning("the store cannot be written to: %s", error)
        return "the store cannot be written to"
    return ""
