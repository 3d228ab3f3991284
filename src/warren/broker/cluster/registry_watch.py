"""RegistryWatch: what one replica believes of its shard, read again whenever the registry changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from warren.broker.cluster.shard_registry import LivingReplica, ShardRegistry, ShardSettings, founders
from warren.clock import Clock
from warren.errors import NotMaster, RegistryError, ReplicaTaken, WrongCluster
from warren.replication.shard_state import RegistryView

LOGGER: Final = logging.getLogger("warren.broker")
READ_AGAIN_S: Final = 0.2
"""When the registry is read again after it did not answer, or has no state of the shard yet."""
FOUND_WAIT_S: Final = 3.0
"""How long a shard without a state waits for all of its replicas, once enough of them are there."""
TAKEN_SESSIONS: Final = 2.0
"""How many session timeouts a node of another directory may stay before the replica gives up."""
T = TypeVar("T")


class WatchOwner(Protocol):
    """The node that a watch reads for."""

    own: LivingReplica | None

    @property
    def is_master(self) -> bool:
        """Returns whether the replica leads. A master whose node is gone ends, and does not register again."""
        ...

    def see(self, view: RegistryView) -> None:
        """Takes a new view of the registry."""
        ...

    def refuse(self, error: Exception) -> None:
        """Ends the process, because it cannot be this replica."""
        ...

    def fail(self, error: BaseException) -> None:
        """Ends the process after an error that nothing was expected of."""
        ...


class RegistryWatch:
    """Reads the registry for one replica, and keeps the node of its process there. For the event loop's thread.

    The registry has a thread of its own. `settings` and `living` are as they were read last, and `view` is what the
    replica goes by: None if the shard has no state, or one that is older than what the replica has seen.
    """

    def __init__(self, owner: WatchOwner, registry: ShardRegistry, session_s: float, clock: Clock) -> None:
        self.registry = registry
        self.settings: ShardSettings | None = None
        self.living: dict[int, LivingReplica] = {}
        self.view: RegistryView | None = None
        self.refused_because = ""
        """Why the replica takes no part in the shard; empty if it does."""
        self._owner, self._session_s, self._clock = owner, session_s, clock
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "warren-replica-registry")
        self._is_reading = self._must_read = self._is_closed = False
        self._enough_since: float | None = None
        self._taken_since: float | None = None

    async def start(self) -> ShardSettings:
        """Reads the settings of the shard, and watches all that concerns it."""
        self.settings = await self.call(self.registry.settings)
        assert self.settings is not None
        await self.call(self.registry.watch, self._changed)
        return self.settings

    # --- Who leads ---

    def living_master(self) -> LivingReplica | None:
        """Returns the master if its process lives."""
        view = self.view
        if view is None or view.state.master is None or not view.is_master_alive:
            return None
        return self.living.get(view.state.master)

    def other_master(self) -> LivingReplica | None:
        """Returns the master if it is another replica than this one."""
        master, own = self.living_master(), self._owner.own
        return None if master is None or own is None or master.replica == own.replica else master

    def not_master(self, target: str = "") -> NotMaster:
        """Returns the error that says who leads. `target` are path and query of the request, if it came over HTTP."""
        master, epoch = self.other_master(), 0 if self.view is None else self.view.state.epoch
        if master is None:
            return NotMaster(self.registry.shard, epoch, "")
        location = master.http + target if master.http and target else ""
        return NotMaster(self.registry.shard, epoch, master.address, location)

    # --- Reading ---

    def close(self) -> None:
        """Reads no more."""
        self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def call(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Calls `work` on the thread of the registry, and returns its result."""
        return self._loop.run_in_executor(self._thread, partial(work, *arguments))

    def _changed(self) -> None:
        """Runs on a thread of the registry."""
        self._loop.call_soon_threadsafe(self.read)

    def read(self) -> None:
        """Reads the registry as soon as it answers. Reads that come together are one."""
        if self._is_closed:
            return
        if self._is_reading:
            self._must_read = True
            return
        self._is_reading, self._must_read = True, False
        self.call(self._read_all, self._owner.is_master).add_done_callback(self._was_read)

    def _read_all(self, is_master: bool) -> tuple[RegistryView | None, LivingReplica | None]:
        """Runs on the thread of the registry. Returns the view, and who has this replica's place if it is another."""
        own, registry = self._owner.own, self.registry
        assert own is not None
        view = registry.view()
        there = registry.living.get(own.replica)
        if (there is None or there.nonce != own.nonce) and not is_master:
            holder = registry.register(own)
            if holder is not None:
                return view, holder
            registry.forget_published()
            view = registry.view()
        self.settings = registry.settings() or self.settings
        if view is None:
            self._found_shard(registry)
        return view, None

    def _found_shard(self, registry: ShardRegistry) -> None:
        """Makes the first state of the shard, when enough replicas are there."""
        assert self.settings is not None
        assert self._owner.own is not None
        settings, now = self.settings, self._clock.steady_s()
        there = [replica for replica in settings.replicas if replica in registry.living]
        if len(there) < settings.min_insync:
            self._enough_since = None
        elif self._enough_since is None:
            self._enough_since = now
        is_awaited = self._enough_since is None or now < self._enough_since + FOUND_WAIT_S
        try:
            members = founders(settings, registry.living, is_all_awaited=is_awaited)
        except WrongCluster as error:
            self._refuse(str(error))
            return
        if members and there[0] == self._owner.own.replica and registry.found_state(members):
            LOGGER.info("shard %d begins with the replicas %s", registry.shard, [each.replica for each in members])

    def refuses_store(self) -> bool:
        """Refuses to follow, if the directory has records from before it was a replica. Returns whether it does.

        The shard has begun with another store, and its master would let this slave cut everything.
        """
        own, registry = self._owner.own, self.registry
        if own is None or own.epoch or own.is_empty:
            return False
        self._owner.refuse(
            WrongCluster(
                f"replica {own.replica} has a store that was never part of shard {registry.shard}, which began with "
                "another one: nothing of it was removed",
                "start the replica with an empty directory, or start it first in a new shard",
            )
        )
        return True

    def _was_read(self, future: asyncio.Future[tuple[RegistryView | None, LivingReplica | None]]) -> None:
        self._is_reading = False
        if self._is_closed or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, RegistryError):
            LOGGER.warning("the registry does not answer: %s", error)
            self._loop.call_later(READ_AGAIN_S, self.read)
            return
        if error is not None:
            self._owner.fail(error)
            return
        self._take(*future.result())
        if self._must_read:
            self.read()

    def _take(self, view: RegistryView | None, holder: LivingReplica | None) -> None:
        self.living = dict(self.registry.living)
        if holder is not None:
            self._wait_for_place(holder)
        elif view is None:
            self._loop.call_later(READ_AGAIN_S, self.read)
        elif self._is_known_epoch(view):
            self._taken_since = None
            self.refused_because = ""
            self.view = view
            self._owner.see(view)

    def _wait_for_place(self, holder: LivingReplica) -> None:
        """Waits for the session of a process that may be dead. It lives if it stays for longer than a session."""
        now = self._clock.steady_s()
        self._taken_since = self._taken_since or now
        if now > self._taken_since + TAKEN_SESSIONS * self._session_s:
            self._owner.refuse(ReplicaTaken(holder.shard, holder.replica, holder.address))
            return
        self._loop.call_later(READ_AGAIN_S, self.read)

    def _is_known_epoch(self, view: RegistryView) -> bool:
        """Returns False if the registry has forgotten an epoch that this replica has seen. Then it takes no part."""
        own = self._owner.own
        epoch = 0 if own is None else own.epoch
        if view.state.epoch < epoch:
            self._refuse(
                f"the registry is at epoch {view.state.epoch} of shard {self.registry.shard}, and this replica has "
                f"seen epoch {epoch}: the registry lost its data, or is another one; start the right registry, or let "
                "`warren cluster elect --unclean` write the state again"
            )
            return False
        return True

    def _refuse(self, reason: str) -> None:
        """Takes no part in the shard until the registry is another one, and says once why. It stays registered."""
        if reason != self.refused_because:
            self.refused_because = reason
            LOGGER.error("%s", reason)
