"""Lists the functions that the most frequent calls go through: `python -m tools.paths`, with `-v` each by name.

A reader follows these paths, so their length is a measure of the house. `tests/integration/test_paths.py` keeps it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import batch_of
from warren.protocol.api_keys import ApiKey

PACKAGE: Final = Path(warren.__file__).parent
BROKER_THREADS: Final = ("broker", "warren-append")
BACKGROUND: Final = frozenset({"_logged", "Pauses.watch", "Pauses.note", "Broker._watch_quotas", "Quotas.refresh"})
"""Work that a broker does from time to time, independently of requests."""
UNNAMED: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
WALKS: Final = 5
"""The shortest of this many walks counts, because a call sometimes also does occasional work."""
WARM_UP: Final = 5
SETTLE_S: Final = 0.05
"""How long the broker may work after the client has its answer."""


class Step(NamedTuple):
    """A function, and its module."""

    module: str
    function: str


class Walk(NamedTuple):
    """The functions of one path, in the order in which they are called first."""

    name: str
    steps: Sequence[Step]

    @property
    def length(self) -> tuple[int, int]:
        """How many functions, and in how many modules."""
        return len(self.steps), len({step.module for step in self.steps})


class Recorder:
    """Records the functions of Warren that run in the main thread and in the threads of a broker."""

    def __init__(self) -> None:
        self._steps: dict[bool, dict[Step, None]] | None = None

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        steps, code = self._steps, frame.f_code
        if steps is None or event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        if code.co_qualname in BACKGROUND or code.co_qualname.endswith(UNNAMED):
            return
        thread = threading.current_thread()
        is_broker = thread.name.startswith(BROKER_THREADS)
        if is_broker or thread is threading.main_thread():
            module = str(Path(code.co_filename).relative_to(PACKAGE))
            steps[is_broker].setdefault(Step(module, code.co_qualname))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Records this thread, and those that start within."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def shortest(self, name: str, call: Callable[[], object], *, is_broker: bool = False) -> Walk:
        """Returns the shortest walk of several."""
        for _ in range(WARM_UP):
            call()
        walks = []
        for _ in range(WALKS):
            self._steps = {False: {}, True: {}}
            call()
            time.sleep(SETTLE_S if is_broker else 0.0)
            steps, self._steps = self._steps, None
            walks.append(Walk(name, list(steps[is_broker])))
        return min(walks, key=lambda walk: walk.length)


def walks() -> Iterator[Walk]:
    """Walks every path once it is warm."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory, recorder.installed():
        yield from _embedded(recorder, Path(directory) / "embedded")
        yield from _network(recorder, Path(directory) / "broker")


def _embedded(recorder: Recorder, path: Path) -> Iterator[Walk]:
    with warren.open(path) as store:
        store.topic("orders")
        yield recorder.shortest("put", lambda: store.topic("orders").put(b"10 carrots"))
        workers = store.topic("orders").group("workers", mode="queue", start="start")

        def take_and_ack() -> None:
            message = workers.take()
            assert message is not None
            workers.ack(message)

        store.topic("orders").put_many([b"1 leek"] * (WARM_UP + WALKS))
        yield recorder.shortest("take and ack", take_and_ack)


def _network(recorder: Recorder, path: Path) -> Iterator[Walk]:
    batch = batch_of([(None, b"10 carrots", [])])
    values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    numbers = itertools.count()

    def fetch(caller: Caller) -> None:
        """Goes on behind the batch that the last fetch got, as a consumer does."""
        part = {"partition": 0, "fetch_offset": next(numbers), "partition_max_bytes": 1}
        answer = caller.call(ApiKey.FETCH, 11, {**values, "topics": [{"topic": "orders", "partitions": [part]}]})
        assert answer.responses[0].partitions[0].records

    with running_broker(path, durability="commit") as broker:
        broker.broker.store.topic("orders")
        with Caller(broker) as caller:
            yield recorder.shortest("Kafka produce", lambda: caller.produce("orders", batch), is_broker=True)
            yield recorder.shortest("Kafka fetch", lambda: fetch(caller), is_broker=True)
        with warren.connect(broker.address) as remote:
            jobs = remote.topic("jobs")
            yield recorder.shortest("client put", lambda: jobs.put(b"resize carrot.png"))
            yield recorder.shortest("client put, broker", lambda: jobs.put(b"resize carrot.png"), is_broker=True)


def main() -> None:
    """Prints the paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="name every function")
    is_verbose = parser.parse_args().verbose
    for walk in walks():
        functions, modules = walk.length
        sys.stdout.write(f"{walk.name}: {functions} functions in {modules} modules\n")
        for step in walk.steps if is_verbose else ():
            sys.stdout.write(f"    {step.module}: {step.function}\n")


if __name__ == "__main__":
    main()
