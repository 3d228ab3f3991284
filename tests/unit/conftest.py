"""A unit test starts no process: tests that do are in `tests/integration`."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

STARTS: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "subprocess.Popen"})
"""The audit events of Python for the start of a process."""


class ProcessWatch:
    """Records each start of a process. An audit hook cannot be removed, so there is one for all tests."""

    def __init__(self) -> None:
        self.started: list[str] = []
        # Bound here, because the names of the module are cleared when the interpreter ends.
        self._starts = STARTS
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self._starts:
            self.started.append(event)


WATCH: Final = ProcessWatch()


@pytest.fixture(autouse=True)
def no_process_starts() -> Iterator[None]:
    WATCH.started.clear()
    yield
    assert WATCH.started == [], "this test starts a process, so it belongs in tests/integration"
