"""Cuts the power between two lines of the engine, wherever they stand."""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType
from typing import Any, Final

import warren
from tests.support.simulated_disk import FrozenDisk, SimulatedFileSystem

ENGINE_DIRECTORY: Final = os.path.join(os.path.dirname(os.path.abspath(warren.__file__)), "storage") + os.sep
LINES_BETWEEN_WRITE_BACKS: Final = 400
HALF_STORED_CHANCE: Final = 0.5
PURE: Final = (
    "slices.py",
    "block.py",
    "checksum.py",
    "columns.py",
    "compression.py",
    "group_commit.py",
    "layout.py",
    "parts.py",
    "paths.py",
    "messages.py",
    "record.py",
    "single_runs.py",
    "tags.py",
    "batch_runs.py",
    "verification.py",
    "log_view.py",
    "walk.py",
    "zbus.py",
)
"""Modules that change nothing on a disk: a cut within them is a cut before the line that follows them."""
OF_THE_PROCESS: Final = ("open_files.py",)
"""What outlives a log: a machine without power has no process that goes on with it."""

UNWATCHED: Final = frozenset((*PURE, *OF_THE_PROCESS))


class LineCutter:
    """While it is entered, counts the lines that run under `directory`, and cuts the power before the `line`-th.

    `line` counts from 1; None never cuts. Drawn by the disk's seed, a page is written back between two lines now and
    then, and at times the cut comes in the midst of what the line before stores. Only the thread that entered is
    watched.
    """

    def __init__(self, disk: SimulatedFileSystem, line: int | None, *, directory: str = ENGINE_DIRECTORY) -> None:
        self.lines = 0
        self._disk, self._line, self._directory = disk, line, directory
        self._next_write_back = self._draw_write_back()
        self._is_half_stored = disk.random.random() < HALF_STORED_CHANCE
        self._earlier: FrozenDisk | None = None

    def __enter__(self) -> LineCutter:
        sys.settrace(self._on_call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        caller = frame.f_back
        # What a destructor raises is swallowed, also in what it calls: a cut there would be no cut.
        is_destroyed = code.co_name == "__del__" or (caller is not None and caller.f_code.co_name == "__del__")
        if not code.co_filename.startswith(self._directory) or is_destroyed:
            return None
        if os.path.basename(code.co_filename) in UNWATCHED:
            return None
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self._next_write_back:
                self._disk.write_back()
                self._next_write_back += self._draw_write_back()
            if self.lines == self._line:
                self._disk.cut(self._earlier)
            if self._is_half_stored and self._line is not None and self.lines == self._line - 1:
                self._earlier = self._disk.freeze()
        return self._on_line

    def _draw_write_back(self) -> int:
        return self._disk.random.randint(1, 2 * LINES_BETWEEN_WRITE_BACKS)
