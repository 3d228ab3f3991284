"""RackReads: a client that says where it stands reads from a replica in that rack, and from the master otherwise."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from warren.client.net.call_steps import Hurry, Steps, run
from warren.client.net.connection import Connection
from warren.client.net.known_ends import KnownEnds
from warren.client.net.session import Calls, same
from warren.errors import BadInput, ConnectionLost, LoginFailed, NotMaster, WarrenError
from warren.protocol.native.calls import VERSION, checked, positions_of
from warren.protocol.native_messages import (
    AppendRequest,
    AppendResponse,
    FindReplicasRequest,
    OpenTopicRequest,
    ReadRequest,
    ReadResponse,
    WirePosition,
)
from warren.protocol.wire_struct import NativeResponse, WireRequest
from warren.storage.disk.open_files import process_residents

RACK_SIZE_MAX: Final = 255
"""How many characters the name of a rack may have."""
REPLICA_LOOK_S: Final = 5.0
"""How long a client that found no replica in its rack, or lost it, reads from the master before it looks again."""
REPLICA_WAIT_S_MAX: Final = 1.0
"""How long a read waits at a replica at a time. Then the replica says whether it is still in sync."""
REPLICA_LAG_S_MAX: Final = 0.1
"""How long a read waits for a message that the replica does not show yet, before the client asks the master for it."""
LOSSES: Final = (ConnectionLost, NotMaster, LoginFailed)
"""Errors after which a client leaves a replica. After any other one it only asks the master in place of it."""

R = TypeVar("R", bound=NativeResponse)


class ReplicaCalls(Calls):
    """The connections of a client to the one replica that it reads from. They belong to no session."""

    def __init__(self, address: str, rack: str, master: Calls) -> None:
        super().__init__(
            address,
            timeout_s=master.timeout_s,
            tls=master.tls,
            login=master.login,
            clock=master.clock,
            follows_master=False,
        )
        self.store_id, self._rack = master.store_id, rack

    def _begin(self, connection: Connection) -> None:
        replica = checked(connection.call(FindReplicasRequest(self._rack), VERSION, self._silent_s))
        if replica.store_id != self.store_id:
            raise ConnectionLost(connection.address, f"it has the store {replica.store_id}, not {self.store_id}")

    def _end_session(self) -> None:
        """Does nothing, because there is no session."""


class RackReads:
    """The plain reads of a client: those that change nothing, and say from which number on. Any thread may call.

    Without a rack they go to the master. With a rack they go to a replica that stands there, is in sync and in reach.
    What it does not show, refuses or fails to answer is asked of the master. A read returns everything below the known
    ends, as from the master. Past them it may take a moment longer until a message is there.
    """

    def __init__(self, calls: Calls, rack: str | None = None) -> None:
        text: object = rack
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= RACK_SIZE_MAX):
            raise BadInput(f"rack {rack!r}: expected a text of 1 to {RACK_SIZE_MAX} characters")
        self._calls, self._rack = calls, rack
        self.has_rack = rack is not None
        self._ends = KnownEnds()
        self._replica: Calls | None = None
        self._lost_address = ""
        self._look_again_s = float("-inf")
        self._is_closed = False
        self.after_fork()
        process_residents().register(self)

    # --- As a resident of the process: called after a fork, has no files to close ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """Makes the child of a fork independent. The connections to the replica do the same by themselves."""
        self._mutex = threading.Lock()
        self._ends.after_fork()

    # --- Reading ---

    @property
    def address(self) -> str:
        """The address that is read from."""
        replica = self._replica
        return self._calls.address if replica is None else replica.address

    def waiting(
        self,
        request: ReadRequest,
        wait_s: float,
        is_done: Callable[[ReadResponse], bool],
        *,
        is_more: Callable[[ReadResponse], bool],
    ) -> Steps[ReadResponse]:
        """Returns the steps of a read that waits for messages, as `Calls.waiting` does. `is_done` sets the positions
        of the request to those of the answer.
        """
        clock = self._calls.clock
        deadline_s, is_hurried, is_awaited = clock.steady_s() + wait_s, False, False

        def is_done_noted(answer: ReadResponse) -> bool:
            before, after = positions_of(request.positions), positions_of(answer.positions)
            # A position past the end stays where it is.
            self.note(request.topic, {place: end for place, end in after.items() if end > before.get(place, end)})
            return is_done(answer)

        while (replica := self._nearest()) is not None:
            part_s = max(0.0, min(deadline_s - clock.steady_s(), REPLICA_WAIT_S_MAX))
            if self._is_known(request.topic, request.positions):
                part_s = REPLICA_LAG_S_MAX if is_awaited else 0.0
            request.wait_ms = round(part_s * 1000)
            try:
                answer = yield from replica.calling(request, wait_s=part_s, repeat=same, is_tried_once=True)
            except Hurry:
                if is_hurried:
                    raise
                deadline_s, is_hurried, is_awaited = clock.steady_s(), True, False
                continue
            except WarrenError as error:
                self._leave(replica, error)
                break
            is_behind = not answer.is_more and self._is_known(request.topic, answer.positions)
            answer.is_more = answer.is_more or is_behind
            if is_done_noted(answer):
                return answer
            if is_behind:
                if is_awaited or is_hurried:
                    break
                is_awaited = True
            elif deadline_s <= clock.steady_s() and not is_more(answer):
                return answer
        left_s = max(0.0, deadline_s - clock.steady_s())
        return (yield from self._calls.waiting(request, left_s, is_done_noted, repeat=same, is_more=is_more))

    def calling(self, request: WireRequest[R], is_progress: Callable[[R], bool], *, wait_s: float = 0.0) -> Steps[R]:
        """Returns the steps of a read of messages below the end. If a replica made no progress, the master answers."""
        replica = self._nearest()
        if replica is not None:
            try:
                answer = yield from replica.calling(request, wait_s=wait_s, repeat=same, is_tried_once=True)
                if is_progress(answer):
                    return answer
            except WarrenError as error:
                self._leave(replica, error)
        return (yield from self._calls.calling(request, wait_s=wait_s, repeat=same))

    # --- What is known to be there ---

    def _is_known(self, topic: str, positions: Sequence[WirePosition]) -> bool:
        return self._ends.are_past(topic, positions_of(positions))

    def note(self, topic: str, ends: Mapping[int, int]) -> None:
        """Notes that the partitions of a topic reach at least up to these numbers."""
        if self._rack is not None:
            self._ends.note(str(topic), ends)

    def note_put(self, request: AppendRequest, answer: AppendResponse) -> None:
        """Notes where messages of this client are. Not called without a rack: most clients have none."""
        ends = positions_of(answer.positions)
        for record in request.records:
            ends[record.partition] += record.message_count
        self.note(request.topic, ends)

    def learn(self, topics: Iterable[str]) -> None:
        """Asks the master for the ends of topics to which a transaction of this client has put."""
        if self._rack is not None:
            for topic in topics:
                # The user may lack the right to describe the topic, and then reads it with the delay of the replica.
                with suppress(WarrenError):
                    state = self._calls.call(OpenTopicRequest(topic, must_exist=True), repeat=same)
                    self.note(topic, {part.partition: part.end for part in state.partitions})

    def forget(self, topic: str) -> None:
        """Forgets a topic, because it was deleted."""
        self._ends.forget(topic)

    # --- The replica ---

    def _nearest(self) -> Calls | None:
        """Returns the connections to the replica to read from; None for the master. Looks for one now and then."""
        if self._rack is None or self._replica is not None:
            return self._replica
        with self._mutex:
            if self._is_closed or self._calls.clock.steady_s() < self._look_again_s:
                return self._replica
            self._look_later()
        address = self._address_in(self._rack)
        return self._kept(ReplicaCalls(address, self._rack, self._calls)) if address else None

    def _kept(self, replica: Calls) -> Calls | None:
        """Keeps the connections, unless another thread found a replica as well, or closed the client."""
        with self._mutex:
            if self._replica is None and not self._is_closed:
                self._replica = replica
            return self._replica

    def _look_later(self) -> None:
        # Random, so that clients that lost the same replica do not all come back at the same moment.
        self._look_again_s = self._calls.clock.steady_s() + REPLICA_LOOK_S * random.uniform(0.5, 1.0)

    def _address_in(self, rack: str) -> str:
        """Returns the address of a replica in the rack, as the master names it; empty if there is none."""
        try:
            steps = self._calls.calling(FindReplicasRequest(rack), repeat=same, is_tried_once=True)
            addresses = list(run(steps).addresses)
        except WarrenError:
            # The read itself meets the error.
            return ""
        others = [each for each in addresses if each != self._lost_address]
        return random.choice(others or addresses or [""])

    def _leave(self, replica: Calls, error: WarrenError) -> None:
        """Reads from the master from now on, if the error says that the replica cannot be read from."""
        if not isinstance(error, LOSSES):
            return
        with self._mutex:
            if self._replica is replica:
                self._replica, self._lost_address = None, replica.address
                self._look_later()
        replica.close()

    def close(self) -> None:
        """Closes the connections to the replica. Closing twice does no harm."""
        with self._mutex:
            self._is_closed, replica, self._replica = True, self._replica, None
        if replica is not None:
            replica.close()
