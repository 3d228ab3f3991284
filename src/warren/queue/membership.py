"""Who is a member of a stream group: one file for each, which counts as long as the session in its name lives."""

from __future__ import annotations

import os.path
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from warren.queue import store_paths

if TYPE_CHECKING:
    from warren.queue.store import Store


class Membership:
    """One member of the group in `group_directory`. Its `id` never comes back, and sorts by when it joined.

    Others are told at once when it joins or leaves, and see its death when they look next.
    """

    def __init__(self, store: Store, group_directory: str) -> None:
        self._store = store
        self._directory = store_paths.members_directory(group_directory)
        self._path: str | None = None
        self.id = ""

    @property
    def has_joined(self) -> bool:
        return self._path is not None

    def join(self) -> None:
        """Be a member from now on."""
        store = self._store
        store.filesystem.make_directory(self._directory)
        self.id = f"{store.clock.now_ns() // 1000:016d}-{uuid.uuid4().hex[:12]}"
        path = store_paths.member_path(self._directory, self.id, store.session.id)
        # Not synced: after a power cut no member is left.
        store.filesystem.open(path, writable=True, create=True).close()
        self._path = path
        store.wakeup.ring()

    def living(self) -> list[str]:
        """The ids of all members that live, sorted; without one's own where the group was deleted."""
        filesystem, session = self._store.filesystem, self._store.session
        try:
            names = filesystem.names(self._directory)
        except FileNotFoundError:
            return []
        is_alive: dict[str, bool] = {}
        found: list[str] = []
        for name in names:
            member = store_paths.member_of(name)
            if member is None:
                continue
            if member.session not in is_alive:
                is_alive[member.session] = session.is_alive(member.session)
            if is_alive[member.session]:
                found.append(member.id)
            elif not filesystem.is_read_only:
                self._remove(os.path.join(self._directory, name))
        return sorted(found)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._store.filesystem.remove(path)

    def leave(self) -> None:
        """Be no member any more. Leaving twice does no harm."""
        path, self._path = self._path, None
        if path is not None:
            self._remove(path)
            self._store.wakeup.ring()

    def after_fork(self) -> None:
        """In a child: the member is the parent's. The child may join as another one."""
        self._path = None
