"""The registry inside one process answers random scripts of changes exactly as a real ZooKeeper does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.integration.registry.servers import RunningServer
from warren.registry.connection import connect_registry
from warren.registry.local import LocalEnsemble
from warren.registry.registry import Change, Check, Create, Delete, Registry, Set

STEPS = 150
NAMES = ("a", "b", "c")


def random_path(random: Random) -> str:
    return "".join(f"/{random.choice(NAMES)}" for _ in range(random.choice((1, 1, 2, 2, 3))))


def random_change(random: Random, root: str) -> Change:
    path, version = root + random_path(random), random.choice((-1, -1, 0, 1, 2))
    data = random.randbytes(random.randrange(4))
    kind = random.choice("ccccessdkk")
    if kind in "ce":
        return Create(path, data, kind == "e")
    if kind == "s":
        return Set(path, data, version)
    return Delete(path, version) if kind == "d" else Check(path, version)


def run_script(registries: list[Registry], seed: int, root: str) -> list[Any]:
    """Two sessions write by turns. Returns every outcome and the visible state after it."""
    random = Random(seed)
    answers: list[Any] = [registries[0].write([Create(root)])]
    for step in range(STEPS):
        registry = random.choice(registries)
        changes = [random_change(random, root) for _ in range(random.choice((1, 1, 1, 2, 3, 4)))]
        answers.append(registry.write(changes))
        if step % 10 == 9:
            answers.append(picture(registries, root))
    return [*answers, picture(registries, root)]


def picture(registries: list[Registry], root: str) -> list[Any]:
    """Returns the tree as it is read: owners by their place among the sessions, and creations by their rank."""
    sessions = [0, *(registry.session() for registry in registries)]
    rows, paths = [], [root]
    while paths:
        path = paths.pop()
        node = registries[0].read(path)
        assert node is not None
        names = registries[1].children(path)
        paths += [f"{path}/{name}" for name in names]
        rows.append((path, node.data, node.version, node.created, sessions.index(node.owner), names))
    ranks = {created: rank for rank, created in enumerate(sorted({row[3] for row in rows}))}
    return [(*row[:3], ranks[row[3]], *row[4:]) for row in sorted(rows)]


@pytest.mark.parametrize("seed", range(4))
def test_both_answer_the_same(zookeeper: RunningServer, seed: int) -> None:
    local = LocalEnsemble()
    real: list[Registry] = [connect_registry(zookeeper.address) for _ in range(2)]
    try:
        root = f"/script-{seed}"

        expected = run_script([local.connect(), local.connect()], seed, root)

        assert run_script(real, seed, root) == expected
        assert len({str(outcome) for outcome in expected if hasattr(outcome, "reason")}) > 5
    finally:
        for registry in real:
            registry.close()
