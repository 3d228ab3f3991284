"""Cuts the power between two lines of the engine, at any place."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, TracebackType
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
"""Modules that change nothing on disk: a cut within them is a cut before the line that follows them."""
OF_THE_PROCESS: Final = ("open_files.py",)
"""Modules whose state outlives a log: on a machine without power no process continues with it."""

UNWATCHED: Final = frozenset((*PURE, *OF_THE_PROCESS))
WATCHED: Final[dict[str, dict[CodeType, bool]]] = {}
"""Whether the lines of a function are counted, by the watched directory. It is looked up once for each."""


class LineCutter:
    """While it is entered, counts the lines that run under `directory`, and cuts the power before the `line`-th.

    `line` counts from 1; None never cuts. Drawn by the disk's seed, a page is sometimes written back between two lines,
    and sometimes the cut comes in the middle of a store of the line before. Only the thread that entered is watched.
    """

    def __init__(self, disk: SimulatedFileSystem, line: int | None, *, directory: str = ENGINE_DIRECTORY) -> None:
        self.lines = 0
        self._disk, self._line, self._directory = disk, line, directory
        self._next_write_back = self._draw_write_back()
        self._is_half_stored = disk.random.random() < HALF_STORED_CHANCE
        self._earlier: FrozenDisk | None = None
        # One answer for each function and directory, because every call of a Python function comes here.
        self._is_watched = WATCHED.setdefault(directory, {})

    def __enter__(self) -> LineCutter:
        sys.settrace(self._on_call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        is_watched = self._is_watched.get(code)
        if is_watched is None:
            is_watched = self._is_watched[code] = self._watches(code)
        if not is_watched:
            return None
        # Errors in a destructor are swallowed, also in its calls: a cut there would have no effect.
        caller = frame.f_back
        return None if caller is not None and caller.f_code.co_name == "__del__" else self._on_line

    def _watches(self, code: CodeType) -> bool:
        is_engine = code.co_filename.startswith(self._directory) and code.co_name != "__del__"
        return is_engine and os.path.basename(code.co_filename) not in UNWATCHED

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
