"""The members of a stream group: one file for each, valid while the session in its name lives.

Also says which partitions each member should own.
"""

from __future__ import annotations

import os.path
import uuid
from collections.abc import Collection
from contextlib import suppress

from warren.queue.state import paths
from warren.queue.state.topic_view import StoreView


class Membership:
    """One member of the group in `group_directory`. Its `id` is never used again, and ids sort by the time of joining.

    A join or leave wakes the other members. They notice a death at their next check.
    """

    def __init__(self, store: StoreView, group_directory: str) -> None:
        self._store = store
        self._directory = paths.members_directory(group_directory)
        self._path: str | None = None
        self.id = ""

    @property
    def has_joined(self) -> bool:
        return self._path is not None

    def join(self) -> None:
        """Joins the group."""
        store = self._store
        store.filesystem.make_directory(self._directory)
        self.id = f"{store.clock.now_ns() // 1000:016d}-{uuid.uuid4().hex[:12]}"
        path = paths.member_path(self._directory, self.id, store.session.id)
        # Not synced, because after a power cut no member is left.
        store.filesystem.open(path, writable=True, create=True).close()
        self._path = path
        store.wakeup.ring()

    def living(self) -> list[str]:
        """Returns the ids of all living members, sorted. This member's own id is missing if the group was deleted."""
        filesystem, session = self._store.filesystem, self._store.session
        try:
            names = filesystem.names(self._directory)
        except FileNotFoundError:
            return []
        is_alive: dict[str, bool] = {}
        ids: list[str] = []
        for name in names:
            member = paths.member_of(name)
            if member is None:
                continue
            if member.session not in is_alive:
                is_alive[member.session] = session.is_alive(member.session)
            if is_alive[member.session]:
                ids.append(member.id)
            elif not filesystem.is_read_only:
                self._remove(os.path.join(self._directory, name))
        return sorted(ids)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._store.filesystem.remove(path)

    def leave(self) -> None:
        """Leaves the group. A second call does nothing."""
        path, self._path = self._path, None
        if path is not None:
            self._remove(path)
            self._store.wakeup.ring()

    def after_fork(self) -> None:
        """In a child process: forgets the member, which is the parent's. The child may join as another one."""
        self._path = None


def share(partition_count: int, members: Collection[str], member: str) -> range:
    """Returns the partitions that `member`, one of `members`, should own: a contiguous range.

    Together the members own every partition once, and their counts differ by at most one. Every process that sees the
    same members computes the same shares.
    """
    place = sorted(members).index(member)
    size, larger_count = divmod(partition_count, len(members))
    start = place * size + min(place, larger_count)
    return range(start, start + size + (place < larger_count))
