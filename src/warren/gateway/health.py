"""Whether the broker is alive, and whether it can do what it is there for."""

from __future__ import annotations

import logging
from typing import Final

from warren.errors import WarrenError
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.shapes import Fields, Text, Truth
from warren.queue import store_paths
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.gateway")
HEALTH: Final = Fields({"is_alive": Truth()}, required=("is_alive",))
READINESS: Final = Fields({"is_ready": Truth(), "reason": Text(1000)}, required=("is_ready", "reason"))
PROBE: Final = b"ready\n"


async def healthz(asked: Asked) -> Reply:
    """The event loop goes round: that is all that is asked."""
    return json_reply({"is_alive": True})


async def readyz(asked: Asked) -> Reply:
    """Whether requests are taken, and all logs of the store can be written to."""
    reason = await readiness(asked)
    return json_reply({"is_ready": not reason, "reason": reason}, 503 if reason else 200)


async def readiness(asked: Asked) -> str:
    """What keeps the broker from serving; nothing where nothing does."""
    broker = asked.broker
    if broker.is_stopping:
        return "the broker is stopping"
    if broker.failed_logs:
        return f"{len(broker.failed_logs)} logs take no puts since a sync failed; the broker tries to reopen them"
    return await broker.in_thread(_unwritable, broker.store)


def _unwritable(store: Store) -> str:
    directory = store_paths.broker_directory(store.path)
    try:
        store.filesystem.make_directory(directory)
        file = store.filesystem.open(store_paths.readiness_file(directory), writable=True, create=True)
        try:
            file.write(0, PROBE)
        finally:
            file.close()
    except (WarrenError, OSError) as error:
        # What stands in it names paths of the machine: that is for its log.
        LOGGER.warning("the store cannot be written to: %s", error)
        return "the store cannot be written to"
    return ""
