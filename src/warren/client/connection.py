"""One connection to a broker: a request, and its answer, one after the other."""

from __future__ import annotations

import itertools
import socket
import ssl
from contextlib import suppress
from typing import Final

from warren.client.awake import Waiting
from warren.client.login import Login
from warren.config import ANSWER_SIZE_MAX, FRAME_BUFFER_SIZE
from warren.errors import BadInput, CertificateRefused, ConnectionLost, LoginFailed, ProtocolError
from warren.protocol.api import ApiKey
from warren.protocol.codec import CORRELATION_ID, INT32
from warren.protocol.frames import FrameReader
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import Asked, read_answer, request_bytes, throttle_of
from warren.protocol.own_schemas import OwnKey

CLIENT_ID: Final = "warren"
PORT_DEFAULT: Final = 9092
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port` or `[::1]:port`; BadInput for what is none."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(PORT_DEFAULT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"address {address!r}: expected host:port")
    return host, int(port)


def _lost(address: str, error: Exception) -> ConnectionLost:
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(address, f"its certificate is not taken: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        alert = str(error.reason).rpartition("ALERT_")[2].replace("_", " ").lower()
        return CertificateRefused(address, f"it does not take the certificate of this client: {alert}")
    # Not `str` of an error of the operating system: that begins with its number.
    reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return ConnectionLost(address, reason or str(error) or type(error).__name__)


class Connection:
    """One socket. One thread at a time; after any error it is of no more use."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self.address, self.timeout_s = address, timeout_s
        host, port = parse_address(address)
        try:
            plain = socket.create_connection((host, port), timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            raise _lost(address, error) from error
        self._frames, self._waiting = FrameReader(ANSWER_SIZE_MAX), Waiting(self._socket)
        self._correlation_ids = itertools.count(1)
        self._asked = 0, 0, 0
        self.throttle_s = 0.0
        """For how long the broker asks this client to send nothing, as its last answer says."""
        self.incarnation = 0
        """Of the session that it belongs to."""

    def log_in(self, login: Login) -> None:
        """Show who is there; LoginFailed where the broker does not take it."""
        mechanism = login.first
        answer = self._handshake(mechanism)
        if answer.error_code:
            is_private = isinstance(self._socket, ssl.SSLSocket)
            mechanism = login.next_best(self.address, list(answer.mechanisms), is_private=is_private)
            if self._handshake(mechanism).error_code:
                raise LoginFailed(self.address, login.user, f"it does not take {mechanism}")

        def send(token: bytes) -> bytes:
            told = self.call(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, {"auth_bytes": token}, 0.0)
            if told.error_code:
                raise LoginFailed(self.address, login.user, told.error_message or "user or password is wrong")
            return bytes(told.auth_bytes)

        wrong = login.show(mechanism, send)
        if wrong:
            raise LoginFailed(self.address, login.user, wrong)

    def _handshake(self, mechanism: str) -> Fields:
        return self.call(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, {"mechanism": mechanism}, 0.0)

    def call(self, api_key: int, version: int, values: Values, timeout_s: float) -> Fields:
        """The answer to a request, which comes within `timeout_s` (0: within that of the connection)."""
        self.send(api_key, version, values, timeout_s)
        return self.receive()

    def send(self, api_key: int, version: int, values: Asked, timeout_s: float) -> None:
        """Send a request, whose answer `receive` gives."""
        correlation_id = next(self._correlation_ids)
        data = request_bytes(api_key, version, correlation_id, CLIENT_ID, values)
        self._asked, self.throttle_s = (api_key, version, correlation_id), 0.0
        try:
            if timeout_s and timeout_s != self.timeout_s:
                self.timeout_s = timeout_s
                self._socket.settimeout(timeout_s)
            self._waiting.begin()
            self._socket.sendall(data)
        except OSError as error:
            raise self.lost(error) from error

    def receive(self) -> Fields:
        """The answer to the request that was sent last."""
        try:
            self._waiting.stay_awake()
            frame = self._receive()
            self._waiting.end()
            if frame[CORRELATION_ID.size] and self._asked[0] >= OwnKey.OPEN_SESSION:
                self.throttle_s = throttle_of(frame)
            answer: Fields = read_answer(*self._asked, frame)
            return answer
        except (OSError, ProtocolError, IndexError) as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> ConnectionLost:
        """The error to raise where the connection broke of another."""
        self.close()
        return _lost(self.address, error)

    def fileno(self) -> int:
        """What can be read when an answer is there; -1 when it is closed."""
        return self._socket.fileno()

    def has_come(self) -> bool:
        """Whether there is something of an answer, or the connection broke."""
        return self._waiting.has_come()

    def shut(self) -> None:
        """Whoever waits for an answer, in whatever thread, waits no more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _receive(self) -> memoryview:
        data = self._socket.recv(FRAME_BUFFER_SIZE)
        # Nearly always a whole answer, and nothing else.
        if len(data) >= INT32.size and INT32.unpack_from(data)[0] == len(data) - INT32.size:
            return memoryview(data)[INT32.size :]
        if not data:
            raise ConnectionResetError("it closed the connection")
        for frame in self._frames.feed(data):
            return frame
        while True:
            count = self._socket.recv_into(self._frames.buffer())
            if not count:
                raise ConnectionResetError("it closed the connection")
            for frame in self._frames.received(count):
                return frame

    def close(self) -> None:
        """Closing twice does no harm."""
        self._socket.close()
