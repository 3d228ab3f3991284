"""After a failed sync the broker reports that it is not ready, and reopens the log automatically.

EMFILE is an error code.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http, until
from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.broker.services import failed_logs
from warren.errors import SyncFailed
from warren.queue.topic import Topic
from warren.storage.disk.filesystem import SystemFile

BATCH = batch_of([(None, b"message", [])])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Http]:
    monkeypatch.setattr(failed_logs, "LOG_REOPEN_S", 0.05)
    with running_http(tmp_path / "data", durability="commit") as server:
        yield server


def test_a_failed_sync_is_reported_and_the_log_is_reopened(served: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    served.broker.store.topic("orders")
    synced, fails = SystemFile.sync, {"block"}

    def sync(file: SystemFile) -> None:
        if fails and file.path.endswith("block"):
            raise SyncFailed(file.path, "Input/output error")
        synced(file)

    monkeypatch.setattr(SystemFile, "sync", sync)
    with Caller(served.running) as caller:
        assert caller.produce("orders", BATCH) == (Code.STORAGE_ERROR, -1)
        assert caller.produce("orders", BATCH) == (Code.STORAGE_ERROR, -1)
        answer = served.ask("GET", "/readyz")
        metrics = served.ask("GET", "/metrics").data.decode()
        fails.clear()
        until(lambda: served.ask("GET", "/readyz").status == 200)
        again = caller.produce("orders", BATCH)

    assert (answer.status, answer.document["is_ready"]) == (503, False)
    assert "sync failed" in answer.document["reason"]
    assert "warren_logs_closed 1.0" in metrics
    assert "warren_logs_closed 0.0" in served.ask("GET", "/metrics").data.decode()
    assert again == (Code.NONE, 0)
    assert [message.body for message in served.broker.store.topic("orders").partition(0).read(0)] == [b"message"]


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_a_put_for_which_no_descriptor_is_left_ends_in_an_error_code(
    served: Http, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    served.broker.store.topic("orders", durability=durability)

    def no_descriptor(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files", "/a/path/of/the/machine")

    with Caller(served.running) as caller:
        for _ in range(4):
            assert caller.produce("orders", BATCH)[0] == Code.NONE
            with monkeypatch.context() as patched:
                patched.setattr(SystemFile, "write", no_descriptor)
                patched.setattr(Topic, "see_partitions", no_descriptor)
                patched.setattr("warren.storage.log.Log.settle", no_descriptor)
                patched.setattr("warren.storage.log.Log.append_record", no_descriptor)
                patched.setattr("warren.storage.log.Log.append_packed", no_descriptor)
                assert caller.produce("orders", BATCH) == (Code.STORAGE_ERROR, -1)
