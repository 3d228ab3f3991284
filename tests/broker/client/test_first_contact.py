"""First contact of our own client: the error is reported immediately, in words, and the call is not repeated."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.patience import run
from tests.support.simulated_clock import SimulatedClock
from warren.broker.security.tls import tls_context
from warren.broker.services import limited_log
from warren.broker.services.limited_log import LIMITED_LOG_LINES_MAX
from warren.broker.settings import BrokerSettings
from warren.cli.main import app
from warren.client.net.connection import Connection
from warren.client.net.session import CLIENT_BACKOFF_S_MAX, Calls, same
from warren.errors import (
    BadInput,
    ConnectionLost,
    LoginFailed,
    NotAuthenticated,
    UserWanted,
    WrongTransport,
)
from warren.protocol.api_keys import ApiKey
from warren.protocol.native.calls import checked
from warren.protocol.native_messages import ListTopicsRequest, OpenSessionRequest

trustme = pytest.importorskip("trustme")
ENDLESS_S = 3600.0
"""A client that retried for this long would exceed the time of a test."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    authority, pem = trustme.CA(), tmp_path / "broker.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return pem


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", "the password")
        yield running


@pytest.fixture
def private(tmp_path: Path, certificate: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", tls=tls_context(str(certificate))) as running:
        yield running


def nowhere() -> str:
    """Returns an address at which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# --- No broker at the address ---


@pytest.mark.parametrize(("wait_s", "least_s", "most_s"), [(0.0, 0.0, 0.0), (60.0, 58.0, 60.0)])
def test_a_refused_connection_is_retried_up_to_the_given_time(wait_s: float, least_s: float, most_s: float) -> None:
    clock = SimulatedClock()
    begun_s = clock.steady_s()
    calls = Calls(nowhere(), timeout_s=ENDLESS_S, first_wait_s=wait_s, tls=None, login=None, clock=clock)

    with pytest.raises(ConnectionLost, match="Connection refused") as raised:
        calls.call(ListTopicsRequest(), repeat=same)

    assert least_s <= clock.steady_s() - begun_s <= most_s + CLIENT_BACKOFF_S_MAX
    assert "Errno" not in str(raised.value)
    assert raised.value.retryable


def test_connect_fails_immediately_if_the_port_is_closed() -> None:
    with pytest.raises(ConnectionLost, match=r"no answer from the broker at 127\.0\.0\.1:\d+: Connection refused"):
        warren.connect(nowhere(), timeout=ENDLESS_S)
    with pytest.raises(BadInput, match="wait"):
        warren.connect(nowhere(), wait=-1.0)


def test_connect_of_asyncio_fails_immediately_if_the_port_is_closed() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLost):
            await warren.aio.connect(nowhere(), timeout=ENDLESS_S)

    run(main())


def test_a_client_that_was_connected_keeps_trying(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with running_broker(tmp_path / "data") as running:
        calls = Calls(running.address, timeout_s=60.0, tls=None, login=None, clock=clock)
        calls.call(ListTopicsRequest(), repeat=same)
    begun_s = clock.steady_s()

    with pytest.raises(ConnectionLost):
        calls.call(ListTopicsRequest(), repeat=same)

    assert clock.steady_s() - begun_s >= 60.0 - CLIENT_BACKOFF_S_MAX
    calls.close()


# --- A user is wanted ---


def test_a_client_without_a_user_learns_at_the_first_call_that_the_broker_needs_one(
    secured: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "warren.broker"),
        pytest.raises(UserWanted, match=f"the broker at {secured.address} requires a login") as raised,
    ):
        warren.connect(secured.address, timeout=ENDLESS_S, wait=ENDLESS_S)

    assert isinstance(raised.value, LoginFailed)
    assert not raised.value.retryable
    (record,) = caplog.records
    assert "this broker requires a login" in record.getMessage()


def test_an_unauthenticated_client_gets_one_answer(secured: RunningBroker) -> None:
    request = OpenSessionRequest(session=b"s" * 16, software="test")
    connection = Connection(secured.address, None, PATIENCE_S)
    answer = connection.call(request, 0, PATIENCE_S)

    with pytest.raises(NotAuthenticated):
        checked(answer)
    with pytest.raises(ConnectionLost):
        connection.call(request, 0, PATIENCE_S)


def test_a_kafka_client_without_a_user_is_disconnected(secured: RunningBroker) -> None:
    with Caller(secured) as caller, pytest.raises((AssertionError, ConnectionError)):
        caller.call(ApiKey.METADATA, 9, {"topics": None})


def test_the_refusals_of_a_client_that_retries_without_end_do_not_fill_the_log(
    secured: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_log, "LIMITED_LOG_S", ENDLESS_S)
    with caplog.at_level(logging.WARNING, "warren.broker"):
        for _ in range(LIMITED_LOG_LINES_MAX + 10):
            with Caller(secured) as caller, suppress(AssertionError, ConnectionError):
                caller.call(ApiKey.METADATA, 9, {"topics": None})

    assert caplog.text.count("this broker requires a login") == LIMITED_LOG_LINES_MAX


def test_a_login_at_a_broker_without_users_is_a_clear_error(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "data") as running,
        pytest.raises(LoginFailed, match="it has no logins: connect without"),
    ):
        warren.connect(running.address, user="ann", password="the password", timeout=ENDLESS_S)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("name", "user"), [("ann", "user 'ann'"), ("a password?", "an unknown user")])
def test_a_failed_login_is_logged_with_the_user_that_was_tried_if_there_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mechanism: str, name: str, user: str
) -> None:
    settings = BrokerSettings(sasl=True, mechanisms=("PLAIN", "SCRAM-SHA-256"))
    with (
        running_broker(tmp_path / "data", settings=settings) as running,
        caplog.at_level(logging.WARNING, "warren.broker"),
    ):
        running.broker.users.create("ann", "the password")
        with pytest.raises(LoginFailed):
            warren.connect(running.address, user=name, password="guess", mechanism=mechanism, timeout=PATIENCE_S)

    (record,) = [record for record in caplog.records if "authentication failed" in record.getMessage()]
    assert record.getMessage().startswith(f"authentication failed: {user} from 127.0.0.1:")
    assert "guess" not in caplog.text


# --- TLS on one side ---


def test_a_client_without_tls_learns_that_the_broker_uses_it(private: RunningBroker) -> None:
    with pytest.raises(WrongTransport, match="answers with TLS, and this client does not use it") as raised:
        warren.connect(private.address, timeout=ENDLESS_S, wait=ENDLESS_S)

    assert not raised.value.retryable


def test_a_client_without_tls_learns_that_a_broker_with_client_certificates_uses_it(
    tmp_path: Path, certificate: Path
) -> None:
    context = tls_context(str(certificate), client_ca=str(tmp_path / "ca.pem"))
    with running_broker(tmp_path / "data", tls=context) as running, pytest.raises(WrongTransport):
        warren.connect(running.address, timeout=ENDLESS_S)


@pytest.mark.parametrize("sasl", [False, True])
def test_a_client_with_tls_learns_that_the_broker_does_not_use_it(tmp_path: Path, sasl: bool) -> None:
    with (
        running_broker(tmp_path / "data", settings=BrokerSettings(sasl=sasl)) as running,
        pytest.raises(WrongTransport, match="answers without TLS, and this client uses it"),
    ):
        warren.connect(running.address, tls=True, timeout=ENDLESS_S, wait=ENDLESS_S)


@pytest.mark.parametrize("tls", [None, True])
def test_a_server_that_closes_every_connection_is_reported_as_lost_and_not_as_a_wrong_transport(
    tls: bool | None,
) -> None:
    def close_all(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                listener.accept()[0].close()

    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=close_all, args=(listener,))
    thread.start()
    try:
        with pytest.raises(ConnectionLost) as raised:
            warren.connect(address, tls=tls, timeout=ENDLESS_S)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_S)

    assert type(raised.value) is ConnectionLost


# --- On the command line ---


def error_output(*arguments: str) -> str:
    """Returns the one line that a command writes when it fails."""
    # A command that opened a store in this process has left a handler, which would also write the broker's log.
    logging.getLogger("warren").handlers.clear()
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return str(line)


def test_a_command_says_which_option_is_missing(secured: RunningBroker) -> None:
    message = error_output("topic", "list", "--server", secured.address, "--timeout", "1h")

    assert (
        message
        == f"the broker at {secured.address} requires a login, but no user was given: pass --user, or set WARREN_USER"
    )


def test_a_command_says_that_tls_is_missing_or_too_much(private: RunningBroker, tmp_path: Path) -> None:
    without_tls = error_output("topic", "list", "--server", private.address, "--timeout", "1h")
    ping = error_output("ping", private.address)
    with running_broker(tmp_path / "plain") as plain:
        with_tls = error_output("topic", "list", "--server", plain.address, "--tls", "--timeout", "1h")

    assert without_tls.endswith("answers with TLS, and this client does not use it: pass --tls or --ca")
    assert "answers with TLS" in ping
    assert with_tls.endswith("answers without TLS, and this client uses it: omit --tls and --ca")


def test_a_command_fails_immediately_if_the_port_is_closed() -> None:
    message: Any = error_output("topic", "list", "--server", nowhere(), "--timeout", "1h")

    assert message.endswith("Connection refused")


def test_a_command_retries_for_the_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {}

    def connect(address: str, **options: Any) -> Any:
        arguments.update(options)
        raise ConnectionLost(address, "refused")

    monkeypatch.setattr(warren, "connect", connect)
    error_output("topic", "list", "--server", "127.0.0.1:1", "--connect-wait", "90s")

    assert arguments["wait"] == 90.0
