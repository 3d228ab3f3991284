"""A durable queue that several processes use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.store.stores import quick_store
from warren.errors import (
    BadInput,
)
from warren.queue.store import Store

PATIENCE_S = 30.0
WORKER = """
import sys
from warren.queue.store import Store
store = Store(sys.argv[1], keeps=False)
queue = store.queue("jobs")
for _ in range(int(sys.argv[2])):
    print(queue.get(timeout=30), flush=True)
    if sys.argv[3] == "done":
        queue.task_done()
print("ready", flush=True)
sys.stdin.read()
"""


def worker(path: Path, count: int, *, is_done: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(path), str(count), "done" if is_done else "not"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def lines(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    result = []
    while (line := process.stdout.readline().strip()) != "ready":
        assert line
        result.append(line)
    return result


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with quick_store(tmp_path, defaults={"durability": "os"}) as store:
        yield store


def test_each_item_goes_to_one_of_several_processes(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs", durability="os")
        with worker(tmp_path, 50, is_done=True) as one, worker(tmp_path, 50, is_done=True) as two:
            for number in range(110):
                queue.put(number)
            items = [*lines(one), *lines(two), *[str(queue.get()) for _ in range(10)]]

            assert sorted(items, key=int) == [str(number) for number in range(110)]
            for process in (one, two):
                process.kill()


def test_join_waits_for_other_processes_and_not_for_dead_ones(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs")
        queue.put("task")
        assert not queue.join(timeout=0.01)
        with worker(tmp_path, 1, is_done=False) as busy:
            assert lines(busy) == ["task"]

            assert queue.empty()
            assert not queue.join(timeout=0.05)
            busy.kill()
            busy.wait()
            assert queue.join(timeout=PATIENCE_S)


def test_a_child_has_its_own_tasks(store: Store) -> None:
    queue = store.queue("jobs")
    queue.put(1)
    queue.get()
    child = os.fork()
    if child == 0:
        try:
            queue.task_done()
        except BadInput:
            os._exit(7)
        os._exit(0)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    queue.task_done()
