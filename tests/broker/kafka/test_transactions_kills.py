"""A killed broker: stored messages are not stored again, decided transactions happen, open ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.kafka import transactions_victim as victim
from tests.support.broker.calls import Caller, numbered_batch
from tests.support.broker.running import PATIENCE_S, running_broker
from tests.tidy.source import ROOT, SOURCE
from warren.broker.kafka.errors import Code

PRODUCER = 7, 0


@contextmanager
def killed_broker(data: Path, where: str) -> Iterator[Caller]:
    """A client of a broker that dies at the named step, or otherwise at the end."""
    command = [sys.executable, "-m", victim.__name__, str(data), where]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, ROOT)))}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().rpartition(":")
        with Caller((host, int(port))) as caller:
            yield caller
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def begin(caller: Caller) -> tuple[str, int, int]:
    caller.produce("orders", numbered_batch((999, 0), 0, b"there"))
    _, producer_id, epoch = caller.init("mine")
    who = "mine", producer_id, epoch
    assert caller.add(who, "orders", 0) == [Code.NONE]
    batch = numbered_batch(who[1:], 0, b"a", b"b", is_transactional=True)
    assert caller.produce("orders", batch, transactional_id="mine")[0] == Code.NONE
    return who


def test_a_batch_whose_answer_was_lost_is_not_stored_again(tmp_path: Path) -> None:
    batch = numbered_batch(PRODUCER, 0, b"a", b"b")
    with killed_broker(tmp_path / "data", victim.ANSWERED) as caller, pytest.raises((AssertionError, OSError)):
        caller.produce("orders", batch)

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == (Code.NONE, 0)
        assert caller.produce("orders", numbered_batch(PRODUCER, 2, b"c")) == (Code.NONE, 2)
        assert [message.body for message in broker.broker.store.topic("orders").logs[0].read(0)] == [b"a", b"b", b"c"]


def test_a_transaction_that_was_decided_happens_and_its_end_is_answered_as_done(tmp_path: Path) -> None:
    with killed_broker(tmp_path / "data", victim.CARRIED_OUT) as caller:
        who = begin(caller)
        with pytest.raises((AssertionError, OSError)):
            caller.end(who, committed=True)

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        bodies = [message.body for message in broker.broker.store.topic("orders").logs[0].read(0)]
        assert bodies == [b"there", b"a", b"b"]
        assert caller.end(who, committed=True) == Code.NONE
        assert caller.end(who, committed=False) == Code.INVALID_TXN_STATE


def test_a_transaction_that_was_open_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    with killed_broker(tmp_path / "data", victim.NOWHERE) as caller:
        who = begin(caller)

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.end(who, committed=True) == Code.PRODUCER_FENCED
        assert caller.init("mine") == (Code.NONE, who[1], who[2] + 2)
        assert [message.body for message in broker.broker.store.topic("orders").logs[0].read(0)] == [b"there"]


def test_assigned_ids_are_not_assigned_again(tmp_path: Path) -> None:
    with killed_broker(tmp_path / "data", victim.NOWHERE) as caller:
        ids = [caller.init()[1] for _ in range(3)]

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        ids += [caller.init()[1] for _ in range(3)]

    assert len(set(ids)) == 6
