"""The verification of one shard: asks its replicas what they have, and compares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console

from warren.broker.cluster.overview import ShardOverview
from warren.cli.running.bar import progress_bars
from warren.client.net.connection import Connection
from warren.errors import WarrenError
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.native_messages import DigestRecordsRequest, ListCopyRequest, SeeClusterRequest
from warren.replication.comparison import Compared, Comparison, FileRow, FileRows, RecordsDigest

ANSWER_S: Final = 30.0
"""A replica may have to walk a large directory before it answers."""
GONE: Final = "it does not run"
CATCHING_UP: Final = "behind"
OBSERVER: Final = "observer"
"""Roles of replicas that need not have everything yet."""


class RemoteCopy:
    """The copy of a replica that is asked over a connection."""

    def __init__(self, replica: int, connection: Connection) -> None:
        self.replica, self._connection = replica, connection

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        request = ListCopyRequest(after=after, paths=paths)
        answer = checked(self._connection.call(request, VERSION, ANSWER_S))
        rows = [FileRow(each.path, bytes(each.digest), each.first, each.end) for each in answer.files]
        return FileRows(rows, answer.is_complete)

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        request = DigestRecordsRequest(log=log, start=start, end=end, bytes_max=size_max, is_checked=is_checked)
        answer = checked(self._connection.call(request, VERSION, ANSWER_S))
        if not answer.is_there:
            return None
        return RecordsDigest(answer.first, answer.end, answer.next, bytes(answer.digest))

    def position(self) -> Mapping[int, int]:
        """Returns the last change that each replica has acknowledged, as this one knows it; nothing from a slave."""
        answer = checked(self._connection.call(SeeClusterRequest(), VERSION, ANSWER_S))
        return {each.replica: each.acknowledged for shard in answer.shards for each in shard.replicas}

    def close(self) -> None:
        self._connection.close()


def verify_shard(shard: ShardOverview, connect: Callable[[str], Connection], *, is_quiet: bool) -> Sequence[Compared]:
    """Compares all replicas of a shard with its master, or with the first one that answers if it has none.

    `connect` makes a connection to an address. A replica that does not answer is a fault of the result.
    """
    numbers = [*shard.settings.replicas, *shard.settings.observers]
    if shard.master is not None:
        numbers.sort(key=lambda each: each != shard.master.replica)  # type: ignore[union-attr]
    copies: list[RemoteCopy] = []
    silent: list[Compared] = []
    try:
        for number in numbers:
            living = shard.living.get(number)
            if living is None:
                silent.append(Compared(replica=number, lost=GONE))
                continue
            try:
                copies.append(RemoteCopy(number, connect(living.address)))
            except WarrenError as error:
                silent.append(Compared(replica=number, lost=str(error)))
        return [*_compared(shard, copies, is_quiet=is_quiet), *silent]
    finally:
        for copy in copies:
            copy.close()


def _compared(shard: ShardOverview, copies: Sequence[RemoteCopy], *, is_quiet: bool) -> Sequence[Compared]:
    if not copies:
        return []
    catching_up = [each.replica for each in copies if shard.role(each.replica) == CATCHING_UP]
    observers = [each.replica for each in copies if shard.role(each.replica) == OBSERVER]
    with progress_bars(Console(stderr=True, highlight=False, quiet=is_quiet), is_transient=True) as progress:
        task = progress.add_task(f"comparing shard {shard.shard}", total=None)
        return Comparison(
            copies,
            catching_up,
            observers,
            position=copies[0].position,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        ).run()
