"""The attacks of a stranger on a socket of the broker: each is one connection, or a few, from open to close."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tests.fuzz.batches import BOMBS, bomb, large_record, lying_batch, wounded
from tests.fuzz.valid import TOPICS, Knowledge, framed, valid_request
from tests.support.message_values import decode_response, encode_request
from tests.support.protocol_values import every_version
from warren.errors import ProtocolError
from warren.protocol.api_keys import APIS, Api, ApiKey
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32

HOST: Final = "127.0.0.1"
VERSIONS: Final[Sequence[tuple[Api, int]]] = tuple(every_version())
ANSWER_S_MAX: Final = 20.0
SIZES: Final = (-1, -(1 << 31), 0, 3, 1 << 20, 90 << 20, (100 << 20) + 1, (1 << 31) - 1)
SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
CLOSED: Final = (ConnectionError, TimeoutError)
UNREADABLE: Final = (ProtocolError, ValueError, IndexError)


class Login(NamedTuple):
    """The login of an attacker, if the broker requires one; None before that."""

    user: str
    password: str


class Wire:
    """One connection of an attacker. Any reaction of the broker is acceptable."""

    def __init__(self, port: int, login: Login | None = None, source: str = HOST) -> None:
        self._socket = socket.create_connection((HOST, port), ANSWER_S_MAX, (source, 0))
        self._count = 0
        if login is not None:
            self.ask(APIS[ApiKey.SASL_HANDSHAKE], 1, encode_request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}))
            token = f"\0{login.user}\0{login.password}".encode()
            self.ask(
                APIS[ApiKey.SASL_AUTHENTICATE],
                1,
                encode_request(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": token}),
            )

    def send(self, data: bytes) -> None:
        with suppress(*CLOSED):
            self._socket.sendall(data)

    def send_for(self, data: bytes, seconds: float) -> None:
        """Sends as much of it as the broker accepts in that time."""
        self._socket.settimeout(seconds)
        self.send(data)
        self._socket.settimeout(ANSWER_S_MAX)

    def frame(self, content: bytes) -> None:
        self.send(INT32.pack(len(content)) + content)

    def ask(self, api: Api, version: int, body: bytes) -> bytes | None:
        """Returns the body of the answer; None if the connection was closed."""
        self._count += 1
        self.frame(framed(api.key, version, body, self._count))
        while True:
            answer = self.answer()
            if answer is None:
                return None
            if answer[:4] == INT32.pack(self._count):
                is_flexible = api.is_flexible(version) and api.key != ApiKey.API_VERSIONS
                return answer[INT32.size + is_flexible :]

    def answer(self) -> bytes | None:
        """Returns the next frame; None if there is none."""
        head = self._receive(INT32.size)
        return None if head is None else self._receive(INT32.unpack(head)[0])

    def _receive(self, size: int) -> bytes | None:
        parts, missing = [], size
        while missing:
            try:
                piece = self._socket.recv(min(missing, 1 << 20))
            except CLOSED:
                return None
            if not piece:
                return None
            parts.append(piece)
            missing -= len(piece)
        return b"".join(parts)

    def close(self) -> None:
        self._socket.close()


class Attacker:
    """Draws attacks from a seed. `count` is the number of requests and pieces that were sent."""

    def __init__(self, port: int, chance: random.Random, login: Login | None = None, source: str = HOST) -> None:
        self._port, self._chance, self._login, self._source = port, chance, login, source
        self._knowledge, self._silent = Knowledge(), list[Wire]()
        self.count = 0
        self.kinds: Sequence[Callable[[], None]] = (
            self.walk,
            self.walk,
            self.walk,
            self.tampered,
            self.tampered,
            self.noise,
            self.truncated,
            self.false_size,
            self.replayed,
            self.lying_batches,
            self.lying_batches,
            self.out_of_order,
            self.never_reads,
        )

    def step(self) -> str:
        """Carries out one random attack, and returns its name."""
        attack = self._chance.choice(self.kinds)
        attack()
        return attack.__name__

    def close(self) -> None:
        for wire in self._silent:
            wire.close()

    def _wire(self) -> Wire:
        return Wire(self._port, self._login, self._source)

    def _request(self, api: Api, version: int) -> bytes:
        self.count += 1
        return valid_request(api, version, self._chance, self._knowledge)

    def every_key(self) -> list[str]:
        """Sends a valid request of every key in every version.

        Returns those without an answer, or with an unreadable one.
        """
        missing, wire = [], self._wire()
        for api, version in VERSIONS:
            body = self._request(api, version)
            if api.key == ApiKey.PRODUCE:
                body = encode_request(ApiKey.PRODUCE, version, {"acks": 1, "timeout_ms": 1000, "topic_data": ()})
            answer = wire.ask(api, version, body)
            if answer is None:
                missing.append(f"{api.name} {version}: closed")
                wire.close()
                wire = self._wire()
                continue
            try:
                self._knowledge.learn(decode_response(api.key, version, answer))
            except UNREADABLE as error:
                missing.append(f"{api.name} {version}: {error}")
            if api.key in SASL:
                # A client that fails to reauthenticate has no user from then on.
                wire.close()
                wire = self._wire()
        wire.close()
        return missing

    def walk(self) -> None:
        """Valid requests in any order on one connection, each answered before the next."""
        wire = self._wire()
        for _ in range(self._chance.randrange(5, 30)):
            api, version = self._chance.choice(VERSIONS)
            if api.key == NativeKey.OPEN_SESSION and self._chance.random() < 0.5:
                continue
            if api.key == ApiKey.PRODUCE:
                continue
            answer = wire.ask(api, version, self._request(api, version))
            if answer is None:
                break
            with suppress(*UNREADABLE):
                self._knowledge.learn(decode_response(api.key, version, answer))
        wire.close()

    def tampered(self) -> None:
        """Sends requests with changed bytes, and waits for their answers only at the end."""
        wire = self._wire()
        for _ in range(self._chance.randrange(1, 12)):
            api, version = self._chance.choice(VERSIONS)
            wire.frame(framed(api.key, version, wounded(self._request(api, version), self._chance), client_id=None))
        self._last_answer(wire)
        wire.close()

    def _last_answer(self, wire: Wire) -> None:
        """Waits until all of it was handled, or the connection is closed."""
        wire.ask(APIS[ApiKey.API_VERSIONS], 0, b"")

    def noise(self) -> None:
        wire = self._wire()
        wire.send(self._chance.randbytes(self._chance.choice((1, 4, 100, 5000))))
        self.count += 1
        wire.close()

    def truncated(self) -> None:
        """A frame that ends in its middle: the connection is closed, or stays silent."""
        wire = self._wire()
        api, version = self._chance.choice(VERSIONS)
        content = framed(api.key, version, self._request(api, version))
        data = INT32.pack(len(content)) + content
        wire.send(data[: self._chance.randrange(len(data))])
        if self._chance.random() < 0.7:
            wire.close()
            return
        self._silent.append(wire)
        if len(self._silent) > 50:
            self._silent.pop(0).close()

    def false_size(self) -> None:
        wire = self._wire()
        wire.send(INT32.pack(self._chance.choice(SIZES)) + self._chance.randbytes(self._chance.choice((0, 10, 1000))))
        self.count += 1
        wire.close()

    def replayed(self) -> None:
        """The same request several times, on the same connection and on the next."""
        api, version = self._chance.choice(VERSIONS)
        content = framed(api.key, version, self._request(api, version))
        for _ in range(2):
            wire = self._wire()
            for _ in range(self._chance.randrange(2, 10)):
                wire.frame(content)
            self._last_answer(wire)
            wire.close()

    def out_of_order(self) -> None:
        """Many requests without waiting for an answer."""
        wire = self._wire()
        picked = [self._chance.choice(VERSIONS) for _ in range(20)]
        wire.send(
            b"".join(
                INT32.pack(len(content)) + content
                for content in (framed(api.key, version, self._request(api, version)) for api, version in picked)
            )
        )
        if self._chance.random() < 0.5:
            self._last_answer(wire)
        wire.close()

    def never_reads(self) -> None:
        """Requests much, and reads nothing of it."""
        wire = self._wire()
        api = APIS[ApiKey.METADATA]
        content = framed(api.key, 1, encode_request(api.key, 1, {"topics": None}))
        wire.send((INT32.pack(len(content)) + content) * 200)
        self.count += 200
        self._silent.append(wire)

    def _produce(self, wire: Wire, batch: bytes, topic: str) -> None:
        self.count += 1
        version = self._chance.randrange(3, 13)
        parts = [{"index": self._chance.choice((0, 0, 1)), "records": batch}]
        values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": parts}]}
        wire.ask(APIS[ApiKey.PRODUCE], version, encode_request(ApiKey.PRODUCE, version, values))

    def lying_batches(self) -> None:
        wire = self._wire()
        for _ in range(self._chance.randrange(1, 10)):
            self._produce(wire, lying_batch(self._chance), self._chance.choice(TOPICS))
        wire.close()

    def bombs(self, size: int) -> None:
        """Small batches that unpack to much, of every codec."""
        wire = self._wire()
        for compression in BOMBS:
            self._produce(wire, bomb(compression, 1024), TOPICS[0])
            self._produce(wire, bomb(compression, size), TOPICS[0])
            self._produce(wire, large_record(compression, 20 << 20), TOPICS[0])
        wire.close()
