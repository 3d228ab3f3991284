"""A broker with its side port in a thread of the test's own process, and an HTTP client for it."""

from __future__ import annotations

import base64
import http.client
import json
import queue
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.broker.running import HOST, PATIENCE_S, RunningBroker, running_broker
from warren.broker.broker import Broker
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.gateway.server import SidePort

JSON = "application/json"
PROBLEM = "application/problem+json"
LOOK_S = 0.005


class Answered(NamedTuple):
    """The answer of a request."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.data)

    @property
    def problem(self) -> tuple[int, str]:
        """Returns status and code of a problem document, and checks its form."""
        document = self.document
        assert self.headers["Content-Type"] == PROBLEM
        fields = set(document) - {"partition", "number", "epoch", "master"}
        assert fields == {"type", "title", "status", "detail", "code", "retryable"}
        assert document["status"] == self.status
        return self.status, document["code"]


class Http:
    """Sends requests to the side port of a running broker, each over its own connection."""

    def __init__(self, running: RunningBroker, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.running, self.port, self._tls = running, port, tls
        self.login: tuple[str, str] | None = None

    @property
    def broker(self) -> Broker:
        return self.running.broker

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def connection(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """Returns the answer; a body that is not bytes is sent as JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and "Content-Type" not in sent:
            sent["Content-Type"] = JSON
        if self.login is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = self.connection()
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answered(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Returns the document at a path, which must exist."""
        answered = self.ask("GET", path)
        assert answered.status == 200, answered
        return answered.document

    def put(self, topic: str, *bodies: str, **more: Any) -> Any:
        """Returns the result of a put of these bodies."""
        messages = [{"body": body} for body in bodies]
        answered = self.ask("POST", f"/v1/topics/{topic}/messages", {"messages": messages, **more})
        assert answered.status == 201, answered
        return answered.document


def until(is_so: Callable[[], object]) -> None:
    """Waits until a condition holds that another thread or process brings about."""
    for _ in range(round(PATIENCE_S / LOOK_S)):
        if is_so():
            return
        time.sleep(LOOK_S)
    raise AssertionError("it did not come to pass")


@contextmanager
def running_http(
    path: Path,
    *,
    durability: str = "os",
    settings: BrokerSettings | None = None,
    limits: BrokerLimits | None = None,
    tls: ssl.SSLContext | None = None,
    trusted: ssl.SSLContext | None = None,
    is_local: bool = True,
) -> Iterator[Http]:
    """A broker of the store at `path` that also serves HTTP."""
    ports: queue.Queue[int] = queue.Queue()
    side_server = SidePort(HOST, 0, tls, is_local=is_local, on_listening=lambda host, port: ports.put(port))
    with running_broker(
        path, durability=durability, settings=settings, limits=limits, tls=tls, side_server=side_server
    ) as running:
        yield Http(running, ports.get(timeout=PATIENCE_S), trusted)
