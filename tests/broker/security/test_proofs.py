"""One topic among several, expired certificates, and secrets in the output of a broker."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.named_topics import errors_of, requests_for
from tests.support.broker.process import run_warren
from tests.support.broker.running import HOST, PATIENCE_S, RunningBroker, running_broker
from tests.support.broker.watched import watched_broker
from warren.broker.kafka.errors import Code
from warren.broker.security.rights import Operation, Pattern, Permission, ResourceKind, Right, RightsFile
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerSettings
from warren.errors import LoginFailed, WarrenError
from warren.protocol.api_keys import ApiKey

trustme = pytest.importorskip("trustme")

PASSWORD = "kept, between-us"
WRONG = "not-it, but-close"
EXPIRED = {
    "not_before": datetime.now(UTC) - timedelta(days=2),
    "not_after": datetime.now(UTC) - timedelta(days=1),
}


def log_in(caller: Caller, user: str, password: str) -> int:
    """Returns the error of a login."""
    caller.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    token = f"\0{user}\0{password}".encode()
    error: int = caller.call(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": token}).error_code
    return error


# --- One topic among several ---


def right(kind: ResourceKind, name: str) -> Right:
    """Returns the right of ann to do everything to this resource."""
    return Right(kind, name, Pattern.LITERAL, "User:ann", "*", Operation.ALL, Permission.ALLOW)


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[tuple[RunningBroker, Caller]]:
    """A broker, and a client that may do everything to `mine` and nothing to `others`."""
    settings = BrokerSettings(sasl=True, rights=True)
    with running_broker(tmp_path / "data", settings=settings) as running:
        running.broker.users.create("ann", PASSWORD)
        for topic in ("mine", "others"):
            running.broker.store.topic(topic)
        RightsFile(str(tmp_path / "data")).add(
            [right(ResourceKind.TOPIC, "mine"), right(ResourceKind.GROUP, "billing")]
        )
        with Caller(running) as caller:
            assert log_in(caller, "ann", PASSWORD) == Code.NONE
            yield running, caller


def test_only_the_topic_without_the_right_is_refused_in_a_request_of_several(
    ann: tuple[RunningBroker, Caller],
) -> None:
    broker, caller = ann
    before = broker.broker.store.topic("others").settings
    errors = {}

    for key, request in requests_for("mine", "others").items():
        answer = caller.call(key, *request)
        errors[key] = set(errors_of(answer, "mine")), set(errors_of(answer, "others"))

    assert errors == dict.fromkeys(errors, ({Code.NONE}, {Code.TOPIC_AUTHORIZATION_FAILED}))
    assert broker.broker.store.topics() == ["others"]
    others = broker.broker.store.topic("others")
    assert (others.settings, others.partition(0).end) == (before, 0)


# --- Certificates ---


def certificate(authority: Any, path: Path, **options: Any) -> str:
    authority.issue_cert(HOST, **options).private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def test_a_client_that_checks_refuses_an_expired_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tls = tls_context(certificate(authority, tmp_path / "broker.pem", **EXPIRED))
    with running_broker(tmp_path / "data", tls=tls) as running:
        raw = socket.create_connection(running.broker.advertised, PATIENCE_S)
        with raw, pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            trusting.wrap_socket(raw, server_hostname=HOST)

        with pytest.raises(WarrenError), warren.connect(running.address, tls=trusting, timeout=1.0) as store:
            store.topics()


@pytest.mark.parametrize("is_expired", [False, True])
def test_an_expired_certificate_of_a_client_is_refused_by_the_broker(tmp_path: Path, is_expired: bool) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    trusting.load_cert_chain(certificate(authority, tmp_path / "mine.pem", **(EXPIRED if is_expired else {})))
    tls = tls_context(certificate(authority, tmp_path / "broker.pem"), client_ca=str(tmp_path / "authority.pem"))
    with running_broker(tmp_path / "data", tls=tls) as running:
        if is_expired:
            with pytest.raises(WarrenError), warren.connect(running.address, tls=trusting, timeout=1.0) as store:
                store.topics()
        else:
            with warren.connect(running.address, tls=trusting, timeout=PATIENCE_S) as store:
                assert store.topics() == []


# --- Secrets ---


def test_no_password_is_in_the_log_or_in_a_file_after_any_login(tmp_path: Path) -> None:
    path = tmp_path / "data"
    variables = {"WARREN_SECURITY_SASL": "true", "WARREN_BROKER_LOG_LEVEL": "debug"}
    warren.open(path).close()
    completed = run_warren("user", "create", "ann", "--store", str(path), folder=tmp_path, stdin=PASSWORD + "\n")
    with watched_broker(path, variables=variables) as broker:
        place = HOST, broker.port
        for password in (PASSWORD, WRONG):
            with suppress(LoginFailed):
                warren.connect(f"{HOST}:{broker.port}", user="ann", password=password, timeout=PATIENCE_S).close()
        for user, password in (("ann", WRONG), (PASSWORD, "ann"), ("unknown", PASSWORD)):
            with Caller(place) as caller:
                assert log_in(caller, user, password) != Code.NONE
        # Passwords in wrong fields: as a mechanism, in a malformed token, instead of a request.
        for odd in (PASSWORD.encode(), PASSWORD.encode() + b"\0" * 3, b"n,,n=" + PASSWORD.encode()):
            with Caller(place) as caller, suppress(AssertionError, ConnectionError):
                caller.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": PASSWORD})
                caller.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
                caller.call(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": odd})
        with socket.create_connection(place, PATIENCE_S) as raw:
            raw.sendall(len(PASSWORD).to_bytes(4, "big") + PASSWORD.encode())
            raw.recv(1)
        assert broker.end(signal.SIGTERM) == 0
        written = "".join(broker.lines) + completed.stdout + completed.stderr

    stored = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())
    assert [each for each in (PASSWORD, WRONG) if each in written or each.encode() in stored] == []
    assert "ann" in written
    assert b"ann" in stored
