"""A queue file after a fork, and the examples of its chapter as programs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.patience import SHORT_S, WAIT_S
from tests.support.store.queue_files import NAME, opened_queue, queue_path, quick, still_clock, worker_threads  # noqa: F401
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT, SOURCE
from warren.errors import LogLocked


def in_child(act: Callable[[], object]) -> bool:
    """Returns whether `act` succeeds in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have(path: Path) -> None:
    is_locked, let_go = threading.Event(), threading.Event()
    with quick(path) as jobs:

        def hold() -> None:
            with jobs._shared.changed:
                is_locked.set()
                let_go.wait(WAIT_S)

        thread = threading.Thread(target=hold)
        thread.start()
        is_locked.wait(WAIT_S)

        is_done = in_child(lambda: jobs.push(b"from the child"))

        let_go.set()
        thread.join(WAIT_S)
        assert is_done
        assert jobs.messages() == [b"from the child"]


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.standalone.shared_file.LOCK_WAIT_S_MAX", 2 * SHORT_S)

    with quick(path) as jobs:

        def push_in_vain() -> None:
            with pytest.raises(LogLocked):
                jobs.push(b"from the child")

        with jobs._shared.opened():
            assert in_child(push_in_vain)
        assert jobs.messages() == []


@pytest.mark.parametrize("example", fenced((ROOT / "docs" / "queues.md").read_text(), "python"))
def test_the_examples_of_the_chapter_run(example: str, tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout in ("now a little later\nb'10 carrots' None [b'1 leek']\n", "a parcel\n")
