"""The health checks: is the broker alive, and can it serve requests?"""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import WarrenError
from warren.gateway.http.schemas import Fields, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.queue.state import paths
from warren.settings import Flag
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.gateway")
HEALTH: Final = Fields({"is_alive": Value(Flag())}, required=("is_alive",))
READINESS: Final = Fields({"is_ready": Value(Flag()), "reason": Text(1000)}, required=("is_ready", "reason"))
PROBE: Final = b"ready\n"


async def healthz(request: HttpRequest) -> HttpReply:
    """Returns 200 whenever the event loop runs; checks nothing else."""
    return json_reply({"is_alive": True})


async def readyz(request: HttpRequest) -> HttpReply:
    """Returns 200 if the broker takes requests and the store and all logs can be written to, and 503 if not."""
    reason = await readiness(request)
    return json_reply({"is_ready": not reason, "reason": reason}, 503 if reason else 200)


async def readiness(request: HttpRequest) -> str:
    """Returns the reason why the broker cannot serve, or an empty text if it can."""
    broker = request.broker
    if broker.is_stopping:
        return "the broker is stopping"
    if broker.failed_logs:
        return f"{len(broker.failed_logs)} logs take no puts since a sync failed; the broker tries to reopen them"
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
