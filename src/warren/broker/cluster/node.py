"""ReplicaNode: one replica as a process. It drives the role, slave or master, with sockets, a disk and a registry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import get_ident
from typing import Any, Final, TypeVar

from warren.broker.cluster.disk_work import DiskWork
from warren.broker.cluster.master_link import MasterLink
from warren.broker.cluster.node_setup import NodeEnd, NodeOwner, NodeSetup, NoReaders, SlaveReaders
from warren.broker.cluster.registry_watch import RegistryWatch
from warren.broker.cluster.shard_registry import LivingReplica, ShardRegistry, ShardSettings
from warren.broker.cluster.slave_links import SlaveLinks
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CorruptRecord, NotEnoughReplicas
from warren.replication import actions as act
from warren.replication.codec import master_answer, wire_request
from warren.replication.disk.replica import Replica
from warren.replication.election import Election
from warren.replication.epochs import Epochs
from warren.replication.master import Master
from warren.replication.mastership import HandOver
from warren.replication.messages import (
    JoinShard,
    LinkId,
    MasterAnswer,
    Refusal,
    ShardRefused,
    SlaveRequest,
)
from warren.replication.shard_state import Identity, ProposalOutcome, RegistryView
from warren.replication.slave import Slave
from warren.replication.time_limits import NEVER
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.broker")
BROKEN_ROUNDS_MAX: Final = 3
"""After so many rounds in a row with records that do not check, a slave starts from nothing."""
TIMER_LEAST_S: Final = 0.001
NO_REPLICA: Final = -1
T = TypeVar("T")


class ReplicaNode:
    """One process of a replica, from its start to its end. For the event loop's thread, if not said otherwise.

    Blocking work has three threads: one that writes the disk, in the order of the actions; one that reads it for
    slaves; and one for the registry. Their results come back to the event loop. Small rounds need no thread.
    """

    def __init__(
        self, setup: NodeSetup, disk: Replica, registry: ShardRegistry, owner: NodeOwner, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.setup, self.disk, self.registry, self.owner, self.clock = setup, disk, registry, owner, clock
        self.master: Master | None = None
        self.slave: Slave | None = None
        self.watch = RegistryWatch(self, registry, setup.session_s, clock)
        self.own: LivingReplica | None = None
        self.readers: SlaveReaders = NoReaders()
        self.last_loss = ""
        """Why the last link to a master ended."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), get_ident()
        self._disk_work = DiskWork(clock)
        self._timer: asyncio.TimerHandle | None = None
        self._armed = NEVER
        self._link: MasterLink | None = None
        self._link_id: LinkId | None = None
        self._slave_links: SlaveLinks | None = None
        self.is_linked = False
        """Whether the master has answered on the present link, so that it lives as far as this slave knows."""
        self._is_wake_due, self._broken_rounds = False, 0
        self._store: Store | None = None
        self._is_ended = self.is_serving = False

    # --- Beginning and ending ---

    async def start(self) -> None:
        """Makes the logs whole, registers, and begins to follow. Raises WarrenError if the replica cannot be one."""
        setup = self.setup
        try:
            await self.on_disk(self.disk.settle)
        except CorruptRecord as error:
            LOGGER.error("replica %d starts from nothing, because its copy is damaged: %s", setup.replica, error)
            await self.on_disk(self.disk.start_from_nothing)
            self._end("its copy was damaged")
            return
        is_empty, epochs = await self.on_disk(lambda: (self.disk.is_empty(), self.disk.epochs))
        self.own = setup.living(self.identity, epochs.last, is_empty=is_empty)
        settings = await self.watch.start()
        election = Election(
            self.identity,
            setup.nonce,
            setup.timing,
            settings.replicas,
            settings.min_insync,
            is_power_safe=setup.is_power_safe,
            now=self.now(),
        )
        self.slave = Slave(election, setup.timing, now=self.now())
        self.watch.read()

    @property
    def identity(self) -> Identity:
        return Identity(self.setup.replica, self.disk.incarnation, self.disk.boot)

    @property
    def is_master(self) -> bool:
        return self.master is not None

    @property
    def view(self) -> RegistryView | None:
        """The registry as this replica goes by it; None if there is nothing to go by yet."""
        return self.watch.view

    @property
    def settings(self) -> ShardSettings | None:
        """The settings of the shard."""
        return self.watch.settings

    @property
    def living(self) -> dict[int, LivingReplica]:
        """The living replicas, as the registry had them last."""
        return self.watch.living

    # --- What the watch of the registry finds ---

    def see(self, view: RegistryView) -> None:
        """Takes a new view of the registry."""
        settings = self.settings
        if self.master is not None:
            if settings is not None:
                self.master.change_settings(settings.replicas, settings.min_insync)
            self.perform(self.master.see(view, self.now()))
        elif self.slave is not None:
            self.perform(self.slave.see(view, self.now()))

    def refuse(self, error: Exception) -> None:
        """Ends the process, because it cannot be this replica."""
        LOGGER.error("%s", error)
        self._end(str(error), NodeEnd.REFUSED)

    def fail(self, error: BaseException) -> None:
        """Ends the process after an error that nothing was expected of."""
        LOGGER.error("replica %d ends", self.setup.replica, exc_info=error)
        self._end(str(error), NodeEnd.FAILED)

    # --- Ending ---

    def close(self) -> None:
        """Ends the threads and the link. The process ends afterwards."""
        self._is_ended = True
        self._drop_link()
        if self._timer is not None:
            self._timer.cancel()
        self.watch.close()
        if self._slave_links is not None:
            self._slave_links.close()
        self._disk_work.close()

    def _end(self, reason: str, end: NodeEnd = NodeEnd.AGAIN) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.owner.end(reason, end)

    # --- Threads ---

    def on_disk(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Calls `work` on the thread of the disk, after all that it has to do already."""
        return self._disk_work.call(work, *arguments)

    def _after(
        self, done: asyncio.Future[T], then: Callable[[T], None], failed: Callable[[BaseException], None] | None = None
    ) -> None:
        """Calls `then` with the result, on the event loop. A failure ends the process, if `failed` does not take it."""

        def call(future: asyncio.Future[T]) -> None:
            if self._is_ended or future.cancelled():
                return
            error = future.exception()
            if error is None:
                then(future.result())
            elif failed is not None:
                failed(error)
            else:
                self.fail(error)

        if done.done():
            call(done)
        else:
            done.add_done_callback(call)

    def now(self) -> float:
        """Returns the steady clock of this replica."""
        return self.clock.steady_s()

    # --- Actions ---

    def perform(self, actions: Sequence[act.MasterAction] | Sequence[act.SlaveAction]) -> None:
        """Carries out the actions of the role in their order."""
        for action in actions:
            if self._is_ended:
                return
            self._perform(action)
        self._arm()

    def _perform(self, action: act.MasterAction | act.SlaveAction) -> None:
        """Carries out what both roles ask for, and leaves the rest to the role's own function."""
        disk = self.disk
        match action:
            case act.Show(ends) | act.LiftVisible(ends):
                self._after(self._disk_work.show(disk.show, ends), lambda _: self.readers.wake_readers(ends))
            case act.KeepEpochs(epochs):
                self._after(self.on_disk(disk.keep_epochs, epochs), partial(self._epochs_kept, epochs))
            case act.Propose(proposal, needs_own_node):
                own = self.own if needs_own_node else None
                answer = self.watch.call(self.registry.propose, proposal, own)
                self._after(answer, partial(self._proposed, self.master is not None), self._not_proposed)
            case act.ReadRegistry():
                self.watch.read()
            case _ if self.master is not None:
                self._perform_as_master(action)
            case _:
                self._perform_as_slave(action)

    def _perform_as_master(self, action: act.MasterAction | act.SlaveAction) -> None:
        disk, links = self.disk, self._slave_links
        assert links is not None
        match action:
            case act.SendAnswer(replica, answer):
                links.send_answer(replica, answer)
            case act.SendRanges() | act.SendDigests() | act.SendContents():
                self._after(links.read(action), partial(links.send, action))
            case act.OpenStore():
                self._after(self.on_disk(self._open_store), self._store_opened)
            case act.Serve():
                self._after(self.on_disk(disk.serve), self._serve)
            case act.EndProcess(reason):
                LOGGER.warning("replica %d ends: %s", self.setup.replica, reason)
                self._end(reason)

    def _perform_as_slave(self, action: act.MasterAction | act.SlaveAction) -> None:
        disk, registry = self.disk, self.registry
        match action:
            case act.SendRequest():
                self._send_request(action)
            case act.Apply(items):
                self.readers.prepare_for(items)
                applied = self._disk_work.apply(disk.apply, items, may_wait=not self.readers.are_active)
                self._after(applied, self._applied, self._not_applied)
            case act.SendJoin():
                mine = self.on_disk(lambda: (disk.epochs, disk.first(), disk.tails()))
                self._after(mine, partial(self._send_join, action))
            case act.CutLogs(cuts, first):
                self.readers.close_store()
                self._after(self.on_disk(disk.cut_logs, cuts, first), self._disk_done)
            case act.CompareState(on_disk):
                self._after(self.on_disk(disk.compare_state, on_disk), self._state_compared)
            case act.WriteState(written):
                self._after(self.on_disk(disk.write_state, written), self._disk_done)
            case act.StartFromNothing():
                LOGGER.warning("replica %d starts from nothing", self.setup.replica)
                self._after(self.on_disk(disk.start_from_nothing), lambda _: self._end("it starts from nothing"))
            case act.NoteUnreached(epoch):
                noted = self.watch.call(registry.note_unreached, self.setup.replica, epoch)
                self._after(noted, lambda _: None, self._not_noted)
            case act.ClearUnreached():
                self._after(
                    self.watch.call(registry.clear_unreached, self.setup.replica), lambda _: None, self._not_noted
                )
            case act.Promote(won):
                self._promote(won)

    def _arm(self) -> None:
        if self._is_ended:
            return
        if self.master is not None:
            deadline = self.master.deadline()
        elif self.slave is not None:
            deadline = self.slave.deadline
        else:
            return
        if self._timer is not None:
            if deadline >= self._armed:
                return  # An early timer does no harm, and is set again. Most deadlines move before they come.
            self._timer.cancel()
        self._armed = deadline
        if deadline < NEVER:
            self._timer = self._loop.call_later(max(deadline - self.now(), TIMER_LEAST_S), self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        role = self.master or self.slave
        if role is not None and not self._is_ended:
            self.perform(role.timer(self.now()))

    def _proposed(self, is_of_master: bool, outcome: ProposalOutcome) -> None:
        now = self.now()
        if self.master is not None and is_of_master:
            self.perform(self.master.outcome(outcome, now))
        elif self.slave is not None and not is_of_master:
            self.perform(self.slave.outcome(outcome, now))

    def _not_proposed(self, error: BaseException) -> None:
        LOGGER.warning("the registry does not answer: %s", error)
        self._proposed(self.master is not None, ProposalOutcome.UNKNOWN)

    def _not_noted(self, error: BaseException) -> None:
        LOGGER.warning("the registry does not know that the master is silent: %s", error)

    # --- A slave ---

    def _send_join(self, action: act.SendJoin, mine: tuple[Epochs, Mapping[str, int], Mapping[str, int]]) -> None:
        self._drop_link()
        master = self.living.get(action.replica)
        if self.slave is None or self.watch.refuses_store():
            return
        if master is None:
            self.perform(self.slave.connection_lost(action.link, self.now()))
            return
        epochs, first, tails = mine
        request = JoinShard(
            identity=self.identity, link=action.link, epoch=action.epoch, epochs=epochs, first=first, tails=tails
        )
        self._link_id = action.link
        self._link = MasterLink(partial(self._answered, action.link), partial(self._lost, action.link))
        wire = wire_request(request, self.setup.cluster, self.setup.shard)
        self._link.connect(master.host, master.port, self.setup, wire)

    def _send_request(self, action: act.SendRequest) -> None:
        if self._link is not None and action.request.link == self._link_id:
            self._link.send(wire_request(action.request, self.setup.cluster, self.setup.shard))

    def _answered(self, link: LinkId, response: Any) -> None:
        if self.slave is not None:
            answer = master_answer(response)
            self.is_linked = not isinstance(answer, ShardRefused)
            self.perform(self.slave.received(answer, self.now()))

    def _lost(self, link: LinkId, reason: str) -> None:
        self.is_linked = False
        if reason != self.last_loss:
            LOGGER.warning("replica %d lost its master: %s", self.setup.replica, reason)
            self.last_loss = reason
        if self.slave is not None and not self._is_ended:
            self.perform(self.slave.connection_lost(link, self.now()))

    def _drop_link(self) -> None:
        self.is_linked = False
        if self._link is not None:
            self._link.close()
            self._link = None

    def _disk_done(self, _: object = None) -> None:
        assert self.slave is not None
        self.perform(self.slave.disk_done(self.now()))

    def _applied(self, _: object) -> None:
        self._broken_rounds = 0
        self._disk_done()

    def _not_applied(self, error: BaseException) -> None:
        """Fetches a round again if its records do not check; after some tries everything."""
        LOGGER.error("a round could not be applied: %s", error)
        if not isinstance(error, CorruptRecord):
            self._end(str(error), NodeEnd.FAILED)
            return
        self._broken_rounds += 1
        if self._broken_rounds >= BROKEN_ROUNDS_MAX:
            self._perform(act.StartFromNothing())
            return
        assert self.slave is not None
        assert self._link_id is not None
        self._drop_link()
        self.perform(self.slave.connection_lost(self._link_id, self.now()))
        self._disk_done()

    def _epochs_kept(self, epochs: Epochs, _: object) -> None:
        assert self.own is not None
        self.own = replace(self.own, epoch=epochs.last)
        if self.master is not None:
            self.perform(self.master.epochs_kept(self.now()))
        else:
            self._disk_done()

    def _state_compared(self, differences: Any) -> None:
        assert self.slave is not None
        different, gone = differences
        self.perform(self.slave.state_compared(different, gone, self.now()))

    # --- Promotion ---

    def _promote(self, won: Any) -> None:
        LOGGER.info("replica %d leads epoch %d of shard %d", self.setup.replica, won.state.epoch, self.setup.shard)
        self._drop_link()
        self.slave = None
        disk = self.disk
        on_disk = self.on_disk(lambda: (disk.epochs, disk.tails(), disk.first(), disk.visible()))
        self._after(on_disk, partial(self._lead, won))

    def _lead(self, won: Any, on_disk: Any) -> None:
        disk, (epochs, tails, first, visible) = self.disk, on_disk
        settings = self.settings
        assert settings is not None
        now = self.now()
        self.master = Master(
            self.identity,
            won,
            epochs,
            tails,
            first,
            visible,
            settings.replicas,
            settings.min_insync,
            self.setup.timing,
            began=datetime.now(UTC).isoformat(timespec="milliseconds"),
            now=now,
        )
        self.master.barriers.forbid_waiting()
        self._slave_links = SlaveLinks(self.master, disk)
        self.perform(self.master.start(now))

    def _open_store(self) -> Store:
        """Runs on the thread of the disk."""
        assert self.master is not None
        filesystem = self.disk.lead(self.master.barriers, self.master.epoch, self._noted, self._failed)
        return self.owner.open_store(filesystem)

    def _store_opened(self, store: Store) -> None:
        assert self.master is not None
        self._store = store
        self.perform(self.master.store_opened(self.now()))

    def _serve(self, _: object) -> None:
        assert self._store is not None
        self.is_serving = True
        self.owner.serve(self._store)

    def _noted(self) -> None:
        """Any thread: a change was given to the barriers, or was synced."""
        if not self._is_wake_due:
            self._is_wake_due = True
            is_here = get_ident() == self._loop_thread
            (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._wake)

    def _wake(self) -> None:
        self._is_wake_due = False
        if self.master is not None and not self._is_ended:
            self.perform(self.master.wake(self.now()))

    def _failed(self, reason: str) -> None:
        """Any thread: the disk does not do what a master needs."""
        LOGGER.error("replica %d cannot lead: %s", self.setup.replica, reason)
        self._loop.call_soon_threadsafe(self._end, reason)

    # --- Requests of slaves ---

    def answer(self, request: SlaveRequest, answered: Callable[[MasterAnswer], None]) -> None:
        """Calls `answered` once with the answer to a request of a slave, now or later."""
        if self.master is None or self._slave_links is None:
            answered(ShardRefused(epoch=0, link=request.link, reason=Refusal.NOT_MASTER))
            return
        self._slave_links.open(request, answered)
        self.perform(self.master.received(request, self.now()))

    # --- Handing over ---

    def hand_over(self, replica: int = NO_REPLICA) -> int:
        """Begins to hand the lead over, to any member of the set if none is named. Returns to whom.

        Raises NotMaster if this replica does not lead, or NotEnoughReplicas if the other cannot take over. The process
        ends when it is done; if the barriers are not done in time, it stays in office.
        """
        master = self.master
        if master is None:
            raise self.watch.not_master()
        candidates = [replica] if replica != NO_REPLICA else self.candidates()
        for candidate in candidates:
            if master.hand_over_to(candidate, self.now()):
                LOGGER.info("replica %d hands over to replica %d", self.setup.replica, candidate)
                self.perform(master.wake(self.now()))
                return candidate
        raise NotEnoughReplicas(len(master.insync.members), master.insync.min_insync)

    def candidates(self) -> list[int]:
        """Returns the other living members of the in-sync set, in the order in which they should lead."""
        assert self.settings is not None
        members = {member.replica for member in self.master.insync.members} if self.master is not None else set()
        members &= self.living.keys()
        return [each for each in self.settings.replicas if each in members and each != self.setup.replica]

    @property
    def is_handing_over(self) -> bool:
        """Returns whether a hand-over is under way."""
        return self.master is not None and self.master.hand_over in (HandOver.DRAINING, HandOver.PROPOSED)
