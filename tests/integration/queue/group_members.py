"""The work of the processes of a stream group that are killed: read, commit most of it, leave and come back."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration.queue.group_history import History
from warren.message import Message
from warren.queue.store import Store
from warren.queue.stream.stream_group import StreamGroup

COMMIT_CHANCE = 0.8
LEAVE_CHANCE = 0.02
WORK_S_MAX = 0.004


def runs(messages: Sequence[Message]) -> list[tuple[int, int, int]]:
    """Returns partition, first number and number after the last, of each consecutive part of a page."""
    parts = [list(part) for _, part in itertools.groupby(messages, lambda message: message.partition)]
    for part in parts:
        assert [message.number for message in part] == list(range(part[0].number, part[0].number + len(part)))
    return [(part[0].partition, part[0].number, part[-1].number + 1) for part in parts]


def consume(data: str, history_path: str, seed: int) -> None:
    """Is a member of "billing" until killed, and records everything."""
    history, chance = History(Path(history_path)), random.Random(seed)
    with Store(data) as store:
        topic = store.topic("orders")
        while True:
            with topic.group("billing") as group:
                while chance.random() > LEAVE_CHANCE:
                    step(group, history, chance)
                history.tell("ask")


def step(group: StreamGroup, history: History, chance: random.Random) -> int:
    """Reads once, works a little, and commits most of the time. Returns how many messages that were."""
    history.tell("ask")
    messages = group.read(limit=chance.randint(1, 60), wait=0.02)
    if messages:
        history.tell("read", *runs(messages))
        time.sleep(chance.random() * WORK_S_MAX)
    if chance.random() < COMMIT_CHANCE:
        commit(group, history)
    return len(messages)


def commit(group: StreamGroup, history: History) -> None:
    ends = [(partition, -1, number) for partition, number in group.read_positions().items()]
    if ends:
        history.tell("commit", *ends)
        committed = group.commit()
        assert committed == {partition: number for partition, _, number in ends}
        history.tell("done", *ends)
