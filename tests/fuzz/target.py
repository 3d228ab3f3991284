"""The broker under attack: its process and what the system says of it, and a client that must not notice anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.broker.calls import Caller
from tests.broker.process import PATIENCE_S, warren_command
from tests.fuzz.valid import WITNESS_TOPIC
from tests.support.kafka_batches import batch_of
from tests.tidy.source import SOURCE
from warren.protocol.api import ApiKey
from warren.protocol.kafka_codec import Fields
from warren.protocol.record_batch import Batch, split
from warren.storage.kafka_columns import KafkaColumns
from warren.storage.layout import SECTION_BODY_ENDS

LINES_KEPT: Final = 10_000
FETCH_VERSION: Final = 11
METADATA_VERSION: Final = 1


class Usage(NamedTuple):
    """What a process takes now: memory in bytes, the most it ever took, open files, and threads."""

    resident: int
    resident_max: int
    files: int
    threads: int


class Target:
    """A running `warren serve`, whose log is read as it is written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.lines = process, list[str]()
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("{"), first + process.stderr.read()
        self.host, _, port = json.loads(first)["message"].rpartition(" ")[2].rpartition(":")
        self.port = int(port)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if len(self.lines) < LINES_KEPT or '"level": "warning"' not in line:
                self.lines.append(line)

    def errors(self) -> list[str]:
        """Lines that tell of something that nobody had thought of."""
        return [line for line in list(self.lines) if not line.startswith("{") or json.loads(line)["level"] == "error"]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def usage(self) -> Usage:
        folder = Path("/proc", str(self._process.pid))
        facts = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        sizes = [int(facts[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM")]
        return Usage(sizes[0], sizes[1], len(os.listdir(folder / "fd")), int(facts["Threads"]))

    def stop(self) -> int:
        """How it ends when it is asked to."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        return code


@contextmanager
def attacked_broker(path: Path, **variables: str) -> Iterator[Target]:
    """A broker of the store at `path`, killed at the end if it is still there."""
    command = warren_command(
        "serve", str(path), "--create", "--port", "0", "--log-format", "json", "--durability", "os"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)} | variables
    with subprocess.Popen(command, cwd=path.parent, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Target(process)
        finally:
            if process.poll() is None:
                process.kill()


class Witness:
    """Another connection, which puts and fetches all the while: it is never closed, nor its order broken."""

    def __init__(self, port: int, login: tuple[str, str] | None = None) -> None:
        self._caller = Caller(("127.0.0.1", port))
        self.count = 0
        if login is not None:
            self._caller.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
            token = "\0{}\0{}".format(*login).encode()
            assert self._caller.call(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": token}).error_code == 0

    def step(self) -> None:
        """Put one message and fetch it."""
        body = b"%d" % self.count
        assert self._caller.produce(WITNESS_TOPIC, batch_of([(None, body, [])])) == (0, self.count)
        assert self._fetch(self.count) == [body]
        self.count += 1

    def _fetch(self, number: int) -> Sequence[bytes]:
        part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        topics = [{"topic": WITNESS_TOPIC, "partitions": [part]}]
        values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
        answer: Fields = self._caller.call(ApiKey.FETCH, FETCH_VERSION, values)
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0
        return [body for batch in split(memoryview(found.records)) for body in _bodies(batch)]

    def tidy(self) -> None:
        """Delete every topic but its own: what strangers made is theirs no longer."""
        found = self._caller.call(ApiKey.METADATA, METADATA_VERSION, {"topics": None})
        names: list[Any] = [topic.name for topic in found.topics if topic.name != WITNESS_TOPIC]
        if names:
            self._caller.call(ApiKey.DELETE_TOPICS, 1, {"topic_names": names, "timeout_ms": 1000})

    def close(self) -> None:
        self._caller.__exit__(None, None, None)


def _bodies(batch: Batch) -> list[bytes]:
    columns = KafkaColumns(batch.data, batch.head.record_count)
    return [bytes(body) for body in columns.blobs(SECTION_BODY_ENDS).to_list()]
