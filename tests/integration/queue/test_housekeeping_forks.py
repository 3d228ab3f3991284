"""Housekeeping after a fork: the child does it too."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.support.fakes import QUICK_DISK
from warren.clock import SYSTEM_CLOCK
from warren.queue.state.housekeeping import Keeper
from warren.queue.state.wakeup import Wakeup


def test_a_forked_child_does_the_housekeeping_too(tmp_path: Path) -> None:
    keeper = Keeper(Wakeup(QUICK_DISK, str(tmp_path / "wakeup"), SYSTEM_CLOCK), SYSTEM_CLOCK, threaded=True)
    read_end, write_end = os.pipe()
    keeper.add(lambda: os.write(write_end, b"%d " % os.getpid()) and 0.05)
    child = os.fork()
    if child == 0:
        keeper.after_fork()
        threading.Event().wait(0.5)
        os._exit(0)

    os.waitpid(child, 0)

    keeper.stop()
    assert str(child) in os.read(read_end, 1 << 16).decode().split()
