"""One connection to a broker: it sends one request at a time and receives its answer."""

from __future__ import annotations

import itertools
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from warren.client.net.spin_wait import SpinWait
from warren.errors import BadInput, CertificateRefused, ConnectionLost, LoginFailed, ProtocolError
from warren.protocol.frames import FrameReader
from warren.protocol.limits import ANSWER_SIZE_MAX, FRAME_BUFFER_SIZE
from warren.protocol.login import Login
from warren.protocol.native.calls import read_answer, request_bytes, throttle_of
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import CORRELATION_ID, INT32
from warren.protocol.wire_struct import WireRequest, WireStruct

if TYPE_CHECKING:
    from warren.protocol.kafka_messages import SaslHandshakeResponse

R = TypeVar("R", bound=WireStruct)
CLIENT_ID: Final = "warren"
PORT_DEFAULT: Final = 9092
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2


def parse_address(address: str) -> tuple[str, int]:
    """Returns host and port of `host`, `host:port` or `[::1]:port`. Raises BadInput for anything else."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(PORT_DEFAULT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"address {address!r}: expected host:port")
    return host, int(port)


def _lost(address: str, error: Exception) -> ConnectionLost:
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(address, f"its certificate was not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        alert = str(error.reason).rpartition("ALERT_")[2].replace("_", " ").lower()
        return CertificateRefused(address, f"it does not accept the certificate of this client: {alert}")
    # Not `str(error)` for an operating-system error, because that begins with the error number.
    reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return ConnectionLost(address, reason or str(error) or type(error).__name__)


class Connection:
    """One socket. One thread at a time. After any error the connection must not be used again."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self.address, self.timeout_s = address, timeout_s
        host, port = parse_address(address)
        try:
            plain = socket.create_connection((host, port), timeout_s)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            raise _lost(address, error) from error
        self._frames, self._waiting = FrameReader(ANSWER_SIZE_MAX), SpinWait(self._socket)
        self._correlation_ids = itertools.count(1)
        self._version = self._correlation_id = 0
        """The version and correlation id of the request that was sent last."""
        self.throttle_s = 0.0
        """How long the broker asks this client to send nothing, according to its last answer."""
        self.incarnation = 0
        """The incarnation of the session that the connection belongs to."""

    def log_in(self, login: Login) -> None:
        """Logs in. Raises LoginFailed if the broker refuses, or if it does not prove that it knows the user."""
        # Imported here because most clients need none of Kafka's messages, and the module is large.
        from warren.protocol.kafka_messages import SaslAuthenticateRequest

        mechanism = login.first
        answer = self._handshake(mechanism)
        if answer.error_code:
            is_private = isinstance(self._socket, ssl.SSLSocket)
            mechanism = login.next_best(self.address, list(answer.mechanisms), is_private=is_private)
            if self._handshake(mechanism).error_code:
                raise LoginFailed(self.address, login.user, f"it does not accept {mechanism}")

        def send(token: bytes) -> bytes:
            answer = self.call(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION, 0.0)
            if answer.error_code:
                raise LoginFailed(self.address, login.user, answer.error_message or "user or password is wrong")
            return bytes(answer.auth_bytes)

        wrong = login.show(mechanism, send)
        if wrong:
            raise LoginFailed(self.address, login.user, wrong)

    def _handshake(self, mechanism: str) -> SaslHandshakeResponse:
        from warren.protocol.kafka_messages import SaslHandshakeRequest

        return self.call(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION, 0.0)

    def call(self, request: WireRequest[R], version: int, timeout_s: float) -> R:
        """Sends a request and returns its answer, which must come within `timeout_s` (0: the present timeout)."""
        self.send(request, version, timeout_s)
        return self.receive(request)

    def send(self, request: WireRequest[Any], version: int, timeout_s: float) -> None:
        """Sends a request. `receive` returns its answer."""
        correlation_id = next(self._correlation_ids)
        data = request_bytes(request, version, correlation_id, CLIENT_ID)
        self._version, self._correlation_id, self.throttle_s = version, correlation_id, 0.0
        try:
            if timeout_s and timeout_s != self.timeout_s:
                self.timeout_s = timeout_s
                self._socket.settimeout(timeout_s)
            self._waiting.begin()
            self._socket.sendall(data)
        except OSError as error:
            raise self.lost(error) from error

    def receive(self, request: WireRequest[R]) -> R:
        """Returns the answer to the request, which was sent last. Raises ConnectionLost if it does not come."""
        try:
            self._waiting.stay_awake()
            data = self._socket.recv(FRAME_BUFFER_SIZE)
            # Nearly always a whole answer, and nothing else.
            is_whole = len(data) >= INT32.size and INT32.unpack_from(data)[0] == len(data) - INT32.size
            frame = memoryview(data)[INT32.size :] if is_whole else self._receive_rest(data)
            self._waiting.end()
            if frame[CORRELATION_ID.size] and request.api_key >= NativeKey.OPEN_SESSION:
                self.throttle_s = throttle_of(frame)
            return read_answer(request, self._version, self._correlation_id, frame)
        except (OSError, ProtocolError, IndexError) as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> ConnectionLost:
        """Closes the connection, which broke because of `error`. Returns the ConnectionLost to raise."""
        self.close()
        return _lost(self.address, error)

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when an answer has come; -1 if the connection is closed."""
        return self._socket.fileno()

    def has_come(self) -> bool:
        """Returns whether part of an answer has come or the connection broke."""
        return self._waiting.has_come()

    def shut(self) -> None:
        """Ends the wait for an answer in any thread that waits."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _receive_rest(self, data: bytes) -> memoryview:
        """Returns an answer that begins with `data`."""
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        for frame in self._frames.feed(data):
            return frame
        while True:
            count = self._socket.recv_into(self._frames.buffer())
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            for frame in self._frames.received(count):
                return frame

    def close(self) -> None:
        """Closes the socket. Closing twice does no harm."""
        self._socket.close()
