"""The tests of an embedded store, over the network: those that look at nothing but what users see."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import warren
from tests.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S
from tests.unit.queue import test_broadcast, test_store, test_topic
from tests.unit.queue.standalone import test_durable_queue
from tests.unit.queue.stream import test_stream_group

INSIDES: Final = (
    "clock",
    "filesystem",
    "disk",
    "keep(",
    "store.keep",
    "retire(",
    "defaults",
    "Store(",
    "store.path",
    ".directory",
    "os.fork",
    "monkeypatch",
    "NotAStore",
    "CorruptSettings",
    "topic.json",
    "/proc",
)
"""A test with one of these words looks into the store or at its process, or brings a clock or a disk of its own."""
SUITE: Final[tuple[ModuleType, ...]] = (test_topic, test_broadcast, test_durable_queue, test_store, test_stream_group)
TESTS_MIN: Final = 75


GIVEN: Final = {"tmp_path", "store"}
"""What a test may ask for beside its own parameters."""


def cases(test: Any) -> list[dict[str, Any]]:
    """The parameters with which a test is run; none where it looks into the store, or asks for more."""
    if any(word in inspect.getsource(test) for word in INSIDES):
        return []
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    wanted = set(inspect.signature(test).parameters) - GIVEN
    if not marks:
        return [] if wanted else [{}]
    names = marks[0].args[0]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if len(marks) > 1 or set(names) != wanted:
        return []
    return [
        dict(zip(names, values if len(names) > 1 else [values], strict=True))
        for values in marks[0].args[1]
        if not hasattr(values, "marks")
    ]


TESTS = [
    pytest.param(module, test, given, id=f"{module.__name__.rpartition('.')[2]}-{name}-{number}")
    for module in SUITE
    for name, test in vars(module).items()
    if name.startswith("test_") and inspect.isfunction(test)
    for number, given in enumerate(cases(test))
]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """What takes the place of `quick_store`: a client of a broker, which is started for each store."""
    brokers: dict[str, RunningBroker] = {}
    with ExitStack() as stack:

        def connected(path: Path | str) -> Any:
            if str(path) not in brokers:
                brokers[str(path)] = stack.enter_context(running_broker(Path(path), durability="commit"))
            store = warren.connect(brokers[str(path)].address, timeout=WAIT_S)
            stack.callback(store.close)
            return store

        yield connected


@pytest.mark.parametrize(("module", "test", "given"), TESTS)
def test_the_embedded_suite_passes_over_the_network(
    module: ModuleType,
    test: Callable[..., None],
    given: dict[str, Any],
    tmp_path: Path,
    connect: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "quick_store", connect)
    wanted = GIVEN & set(inspect.signature(test).parameters)

    test(**given, **{name: tmp_path if name == "tmp_path" else connect(tmp_path) for name in wanted})


def test_most_of_the_suite_is_there() -> None:
    assert len(TESTS) >= TESTS_MIN
