"""How many items of a queue are being worked on, by every process that has it open."""

from __future__ import annotations

import os.path
import threading
from typing import Final

from warren.errors import BadInput
from warren.queue import store_paths
from warren.queue.session import Session
from warren.storage.filesystem import FileSystem

COUNT_FILE_SIZE: Final = 4096
BEGUN: Final = 0
ENDED: Final = 1


class Workers:
    """Two counts for each session, in a mapped file of its own: how many items it began, and how many it ended.

    `begin` is called by one thread at a time; `end` by any. What a session had begun that died is nobody's.
    """

    def __init__(self, session: Session, filesystem: FileSystem, directory: str) -> None:
        self._session, self._filesystem, self._directory = session, filesystem, directory
        self._mutex = threading.Lock()
        self._session_id = ""

    def _counts(self) -> memoryview:
        """The counts of this session: a child that was forked has its own."""
        if self._session_id != self._session.id:
            self._session_id = self._session.id
            path = store_paths.worker_path(self._directory, self._session_id)
            file = self._filesystem.open(path, writable=True, create=True)
            if file.size() < COUNT_FILE_SIZE:
                file.preallocate(COUNT_FILE_SIZE)
            self._view = memoryview(file.map(COUNT_FILE_SIZE, writable=True)).cast("q")
        return self._view

    def begin(self) -> None:
        """This session works on one item more."""
        self._counts()[BEGUN] += 1

    def end(self) -> None:
        """It is done with one; BadInput where it works on none."""
        with self._mutex:
            counts = self._counts()
            if counts[ENDED] >= counts[BEGUN]:
                raise BadInput("task_done() was called more often than items were got")
            counts[ENDED] += 1

    def busy(self) -> int:
        """How many items are worked on, in all sessions that live."""
        return sum(self._count_of(name) for name in self._filesystem.names(self._directory))

    def _count_of(self, name: str) -> int:
        session_id = store_paths.worker_session(name)
        if session_id is None:
            return 0
        path = os.path.join(self._directory, name)
        if not self._session.is_alive(session_id):
            self._filesystem.remove(path)
            return 0
        file = self._filesystem.open(path, writable=False)
        data = file.read(0, 16)
        file.close()
        counts = memoryview(data.ljust(16, b"\0")).cast("q")
        return counts[BEGUN] - counts[ENDED]
