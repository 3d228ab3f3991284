"""Attacks on a broker, round after round, and the checks after each of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import warren
from tests.fuzz.attacks import Attacker, Login
from tests.fuzz.witness import Witness
from tests.support.broker.process import run_warren
from tests.support.broker.watched import Usage, WatchedBroker, watched_broker
from warren.errors import CorruptRecord

MEMORY_MAX: Final = 1200 << 20
"""The most memory that the process may ever take: a batch that unpacks to the limit is in memory once, not once per
client.
"""
MEMORY_GROWTH_MAX: Final = 400 << 20
FILES_GROWTH_MAX: Final = 60
THREADS_MAX: Final = 40
ANN: Final = Login("ann", "a secret, of ann")
SETTLE_S: Final = 20.0


class Outcome(NamedTuple):
    """The requests that were sent, how often the other client was served during them, and the faults."""

    seed: int
    requests: int
    attacks: Counter[str]
    witnessed: int
    first: Usage
    last: Usage
    faults: list[str]


def fuzz(
    directory: Path,
    seed: int,
    *,
    rounds: int,
    is_secured: bool = False,
    bomb_size: int = 1 << 20,
    progress: Callable[[int], None] = lambda round_number: None,
) -> Outcome:
    """Attacks a broker in `rounds` rounds, with and without a password if it is secured; then checks the store."""
    path, variables = directory / "data", {"WARREN_BROKER_DELIVER_AT": "all"}
    if is_secured:
        variables["WARREN_SECURITY_SASL"] = "true"
        warren.open(path).close()
        run_warren("user", "create", ANN.user, "--store", str(path), folder=directory, stdin=ANN.password + "\n")
    with watched_broker(path, "--durability", "os", variables=variables) as target:
        witness = Witness(target.port, ANN if is_secured else None)
        witness.step()
        first = target.usage()
        attackers = [Attacker(target.port, random.Random(f"{seed} {who}"), who) for who in _who(is_secured)]
        faults, attacks = _attack(target, witness, attackers, rounds, bomb_size, progress)
        for attacker in attackers:
            attacker.close()
        last = _settled(target, witness, first)
        faults += _judge(target, first, last)
        witness.close()
        code = target.end() if target.is_running else -1
        faults += [f"it ended with {code}"] * (code != 0) + target.errors()
    count = witness.count
    faults += _verify(path, count)
    return Outcome(seed, sum(attacker.count for attacker in attackers), attacks, count, first, last, faults)


def _who(is_secured: bool) -> list[Login | None]:
    return [None, ANN] if is_secured else [None]


def _attack(
    target: WatchedBroker,
    witness: Witness,
    attackers: list[Attacker],
    rounds: int,
    bomb_size: int,
    progress: Callable[[int], None],
) -> tuple[list[str], Counter[str]]:
    attacks: Counter[str] = Counter()
    client = attackers[-1]
    faults = [f"no answer: {one}" for one in client.every_key()]
    witness.step()
    client.bombs(bomb_size)
    witness.step()
    for number in range(rounds):
        for attacker in attackers:
            attacks[attacker.step()] += 1
        witness.step()
        if number % 50 == 49:
            witness.tidy()
        if target.errors() or not target.is_running:
            faults.append(f"round {number}: {attacks.total()} attacks")
            break
        progress(number + 1)
    return faults, attacks


def _settled(target: WatchedBroker, witness: Witness, first: Usage) -> Usage:
    """Returns its memory when the attackers have disconnected and their topics are deleted."""
    deadline = time.monotonic() + SETTLE_S
    while target.is_running:
        witness.tidy()
        witness.step()
        usage = target.usage()
        if not _judge(target, first, usage) or time.monotonic() > deadline:
            return usage
        time.sleep(0.1)
    return first


def _judge(target: WatchedBroker, first: Usage, last: Usage) -> list[str]:
    if not target.is_running:
        return ["the broker is gone"]
    limits = (
        ("memory ever", last.resident_max, MEMORY_MAX),
        ("memory", last.resident, first.resident + MEMORY_GROWTH_MAX),
        ("open files", last.files, first.files + FILES_GROWTH_MAX),
        ("threads", last.threads, THREADS_MAX),
    )
    return [f"{name}: {value:,} is over {most:,}" for name, value, most in limits if value > most]


def _verify(path: Path, count: int) -> list[str]:
    """Returns the damage of the store, and the messages of the other client that are missing."""
    faults = []
    with warren.open(path) as store:
        for name in store.topics():
            for log in store.topic(name).logs:
                try:
                    log.verify(lambda number: None)
                except CorruptRecord as damage:
                    faults.append(f"{name}: {damage}")
        bodies = [message.body for message in store.topic("witness").since(0)]
    if bodies != [b"%d" % number for number in range(count)]:
        faults.append(f"{len(bodies)} of {count} messages of the other client are there")
    return faults
