"""SlaveStatus: whether a replica that does not lead follows its master, and how far it is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from warren.broker.cluster.node import ReplicaNode
from warren.replication.disk.log_facts import directory_of

SLAVE: Final = "slave"
OBSERVER: Final = "observer"
DISK_WAIT_S: Final = 3.0
"""How long a status waits for the thread of the disk, which may be busy with a round of its master."""


class LogStatus(NamedTuple):
    """One log of a slave. `end` is where it ends for readers.

    `behind` counts the messages that are committed and that they do not see yet; None if the master has not said up to
    where the log is committed.
    """

    end: int
    behind: int | None


class SlaveStatus(NamedTuple):
    """A replica that does not lead, as it sees itself.

    `unready` says why it is of no use now, and is empty if it is. A slave is of use if it is in the in-sync set, and an
    observer if it has caught up once. `logs` are by directory; `master` is an address, or empty if no master lives.
    """

    shard: int
    replica: int
    role: str
    epoch: int
    master: str
    insync: int
    min_insync: int
    is_insync: bool
    is_following: bool
    unready: str
    logs: Mapping[str, LogStatus]

    @property
    def behind(self) -> int | None:
        """Returns the messages of all logs that are committed and not here; None if that is not known."""
        counts = [log.behind for log in self.logs.values() if log.behind is not None]
        return sum(counts) if counts and self.is_following else None


async def slave_status(node: ReplicaNode) -> SlaveStatus:
    """Returns the status of a replica that does not lead. Waits for its disk, for DISK_WAIT_S at most."""
    try:
        async with asyncio.timeout(DISK_WAIT_S):
            logs, silence = _logs(node, await node.on_disk(node.disk.visible)), ""
    except TimeoutError:
        logs, silence = {}, f"the disk of this replica has not answered for {DISK_WAIT_S:g} seconds"
    setup, settings, view, master = node.setup, node.settings, node.view, node.watch.other_master()
    is_observer = settings is not None and setup.replica in settings.observers
    members = frozenset() if view is None else view.state.insync
    is_insync = node.identity in members
    absence = "" if is_insync or is_observer else "this replica is not in the in-sync set yet"
    return SlaveStatus(
        shard=setup.shard,
        replica=setup.replica,
        role=OBSERVER if is_observer else SLAVE,
        epoch=0 if view is None else view.state.epoch,
        master="" if master is None else master.address,
        insync=len(members),
        min_insync=0 if settings is None else settings.min_insync,
        is_insync=is_insync,
        is_following=_is_following(node),
        unready=_link_fault(node) or silence or absence,
        logs=logs,
    )


def _is_following(node: ReplicaNode) -> bool:
    return node.slave is not None and node.is_linked and node.slave.has_caught_up


def _link_fault(node: ReplicaNode) -> str:
    """Returns why the replica does not follow a master now; empty if it does."""
    watch, slave = node.watch, node.slave
    if watch.refused_because:
        return watch.refused_because
    if slave is None:
        return "this replica is about to lead"
    master = watch.other_master()
    if master is None:
        return f"shard {node.setup.shard} has no master now"
    if not node.is_linked:
        loss = f": {node.last_loss}" if node.last_loss else ""
        return f"this replica has no connection to its master {master.address}{loss}"
    return "" if slave.has_caught_up else f"this replica is still fetching what its master {master.address} has"


def _logs(node: ReplicaNode, ends: Mapping[str, int]) -> dict[str, LogStatus]:
    committed = {} if node.slave is None else node.slave.committed
    logs = {}
    for name, end in sorted(ends.items()):
        at = committed.get(name)
        logs[directory_of(name)] = LogStatus(end, None if at is None else max(0, at - end))
    return logs
