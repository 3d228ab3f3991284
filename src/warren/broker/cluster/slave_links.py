"""SlaveLinks: the requests of slaves that wait for a master's answer, and the data that the answers need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from warren.replication import actions as act
from warren.replication.changes import LogRange
from warren.replication.disk.replica import Ranges, Replica, StateDigests
from warren.replication.master import Master
from warren.replication.messages import (
    JoinShard,
    LinkId,
    MasterAnswer,
    Refusal,
    ShardFetched,
    ShardRefused,
    SlaveRequest,
    StateFetched,
    StateListed,
)

CONTENTS_SIZE_MAX: Final = 8 << 20
"""How many bytes of state files go with one answer."""


class SlaveLinks:
    """The open requests of the slaves of one master, one for each. For the event loop's thread.

    What comes from mapped blocks is read in place. Old records and files are read on a thread of their own.
    """

    def __init__(self, master: Master, disk: Replica) -> None:
        self._master, self._disk = master, disk
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "warren-replica-read")
        self._waiting: dict[int, tuple[LinkId, Callable[[MasterAnswer], None]]] = {}
        self._joined: dict[int, LinkId] = {}
        """The link that each slave has opened last."""

    def close(self) -> None:
        """Ends the thread, and the requests that wait."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for replica in list(self._waiting):
            self._refuse_waiting(replica)

    def open(self, request: SlaveRequest, answered: Callable[[MasterAnswer], None]) -> None:
        """Notes who gets the answer to a request, which the caller gives to the master now."""
        replica = request.identity.replica
        self._refuse_waiting(replica)
        self._waiting[replica] = (request.link, answered)
        if isinstance(request, JoinShard):
            self._joined[replica] = request.link

    def read(self, action: act.SendRanges | act.SendDigests | act.SendContents) -> asyncio.Future[object]:
        """Reads on the thread what an action sends. `send` gets it."""
        disk = self._disk
        match action:
            case act.SendRanges(ranges=ranges, size_max=size_max):
                return self._loop.run_in_executor(self._thread, disk.ranges, ranges, size_max)
            case act.SendDigests(after=after):
                return self._loop.run_in_executor(self._thread, disk.digests, after)
            case act.SendContents(paths=paths):
                return self._loop.run_in_executor(self._thread, disk.contents, paths, CONTENTS_SIZE_MAX)

    def send(self, action: act.SendRanges | act.SendDigests | act.SendContents, content: object) -> None:
        """Sends what was read for an action."""
        match action:
            case act.SendRanges():
                assert content is None or isinstance(content, Ranges)
                self._send_ranges(action, content)
            case act.SendDigests():
                assert isinstance(content, StateDigests)
                digests, is_complete = content
                answer = StateListed(
                    epoch=self._master.epoch,
                    link=action.link,
                    after=action.after,
                    digests=digests,
                    is_complete=is_complete,
                )
                self.send_answer(action.replica, answer)
            case act.SendContents():
                assert isinstance(content, dict)
                fetched = StateFetched(epoch=self._master.epoch, link=action.link, contents=content)
                self.send_answer(action.replica, fetched)

    def _refuse_waiting(self, replica: int) -> None:
        """Ends the request that a slave has left, because it has sent another one over another connection."""
        old = self._waiting.pop(replica, None)
        if old is not None:
            link, answered = old
            answered(ShardRefused(epoch=0, link=link, reason=Refusal.JOIN_AGAIN))

    def send_answer(self, replica: int, answer: MasterAnswer) -> None:
        """Answers the request of a slave. The ranges in the answer get their data."""
        if isinstance(answer, ShardFetched) and any(isinstance(item, LogRange) for item in answer.items):
            items = self._disk.filled(answer.items)
            if items is None:
                self._give_up_link(replica, answer.link)
                return
            answer = replace(answer, items=items)
        link, answered = self._waiting.pop(replica, (None, None))
        if answered is not None and link == answer.link:
            answered(answer)

    def _give_up_link(self, replica: int, link: LinkId) -> None:
        self._master.connection_lost(replica, link)
        if self._waiting.get(replica, (None,))[0] == link:
            self._refuse_waiting(replica)

    def _send_ranges(self, action: act.SendRanges, ranges: Ranges | None) -> None:
        master = self._master
        if self._joined.get(action.replica) != action.link:
            return
        if ranges is None:
            self._give_up_link(action.replica, action.link)
            return
        items, left = ranges
        master.ranges_left(action.replica, left)
        barrier = 0 if left else action.barrier
        self.send_answer(
            action.replica,
            ShardFetched(epoch=master.epoch, link=action.link, number=action.number, barrier=barrier, items=items),
        )
