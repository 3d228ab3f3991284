"""Our own client with passwords and TLS: it connects if it may, and otherwise gets the reason."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerSettings
from warren.errors import BadInput, CertificateRefused, ConnectionLost, LoginFailed, UserWanted
from warren.protocol.login import Login

trustme = pytest.importorskip("trustme")


@pytest.fixture
def authority() -> Any:
    return trustme.CA()


@pytest.fixture
def broker(tmp_path: Path, authority: Any) -> Iterator[RunningBroker]:
    path = tmp_path / "broker.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(path))
    with running_broker(tmp_path / "data", tls=tls_context(str(path)), settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", "the password")
        yield running


@pytest.fixture
def trusting(authority: Any) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_client_with_the_password_that_trusts_the_certificate_may_connect(
    broker: RunningBroker, trusting: ssl.SSLContext
) -> None:
    with warren.connect(broker.address, tls=trusting, user="ann", password="the password", timeout=WAIT_S) as store:
        store.topic("orders").put(b"x" * 300_000)

        assert store.topic("orders").last(1)[0].body == b"x" * 300_000


@pytest.mark.parametrize(("user", "password"), [("ann", "another"), ("bob", "the password")])
def test_a_wrong_password_is_refused_immediately(
    broker: RunningBroker, trusting: ssl.SSLContext, user: str, password: str
) -> None:
    with pytest.raises(LoginFailed) as caught:
        warren.connect(broker.address, tls=trusting, user=user, password=password, timeout=WAIT_S)

    assert not caught.value.retryable
    assert password not in str(caught.value)


def test_a_client_without_a_user_learns_that_the_broker_needs_one(
    broker: RunningBroker, trusting: ssl.SSLContext
) -> None:
    with pytest.raises(UserWanted):
        warren.connect(broker.address, tls=trusting, timeout=WAIT_S)


def test_a_certificate_that_is_not_trusted_is_refused_immediately(broker: RunningBroker) -> None:
    with pytest.raises(CertificateRefused, match="certificate") as caught:
        warren.connect(broker.address, tls=True, user="ann", password="the password", timeout=WAIT_S)

    assert not caught.value.retryable


def pem(authority: Any, path: Path, *names: str, **options: Any) -> Path:
    authority.issue_cert(*names, **options).private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def test_a_certificate_that_has_expired_is_refused_with_that_reason(tmp_path: Path, authority: Any) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    path = pem(authority, tmp_path / "broker.pem", "127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=2))
    with (
        running_broker(tmp_path / "data", tls=tls_context(str(path))) as broker,
        pytest.raises(CertificateRefused, match="expired"),
    ):
        warren.connect(broker.address, ca=tmp_path / "ca.pem", timeout=WAIT_S)


def test_a_broker_that_requires_certificates_accepts_only_a_client_with_a_trusted_one(
    tmp_path: Path, authority: Any
) -> None:
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    certificate = pem(authority, tmp_path / "client.pem", "client@example.com")
    stranger = pem(trustme.CA(), tmp_path / "stranger.pem", "client@example.com")
    context = tls_context(str(pem(authority, tmp_path / "broker.pem", "127.0.0.1")), client_ca=str(ca))
    with running_broker(tmp_path / "data", tls=context) as broker:
        with warren.connect(broker.address, ca=ca, certificate=certificate, timeout=WAIT_S) as store:
            assert store.topics() == []
        refused: tuple[dict[str, Any], ...] = ({}, {"certificate": stranger})
        for option in refused:
            with pytest.raises(ConnectionLost):
                warren.connect(broker.address, ca=ca, timeout=0.5, **option)


@pytest.mark.parametrize("files", [{"key": "x.pem"}, {"ca": "nowhere.pem"}, {"tls": False, "ca": "x.pem"}])
def test_certificates_that_cannot_be_used_are_refused(files: Any) -> None:
    with pytest.raises(BadInput):
        warren.connect("127.0.0.1:1", **files)


@pytest.mark.parametrize("offered", [("SCRAM-SHA-256",), ("SCRAM-SHA-512",), ("PLAIN", "SCRAM-SHA-256")])
def test_the_password_is_not_sent_if_the_broker_supports_scram(
    tmp_path: Path, offered: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True, mechanisms=offered)) as broker:
        broker.broker.users.create("an=n", "the password")
        monkeypatch.setattr(broker.broker.users, "proven", None)

        with warren.connect(broker.address, user="an=n", password="the password", timeout=WAIT_S) as store:
            store.topic("orders").put(b"x")
        with pytest.raises(LoginFailed):
            warren.connect(broker.address, user="an=n", password="another", timeout=WAIT_S)


def test_the_password_is_sent_only_over_tls_or_on_request(tmp_path: Path) -> None:
    options: dict[str, Any] = {"user": "ann", "password": "the password", "timeout": WAIT_S}
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True, mechanisms=("PLAIN",))) as broker:
        broker.broker.users.create("ann", "the password")

        with pytest.raises(LoginFailed, match="tls"):
            warren.connect(broker.address, **options)
        with pytest.raises(LoginFailed, match="SCRAM-SHA-256"):
            warren.connect(broker.address, mechanism="SCRAM-SHA-256", **options)
        with pytest.raises(BadInput):
            warren.connect(broker.address, mechanism="GUESSING", **options)
        warren.connect(broker.address, mechanism="PLAIN", **options).close()


@pytest.mark.parametrize(
    ("challenge", "wrong"),
    [
        (b"r={nonce}abc,s=c2FsdA==,i=4096", "prove"),
        (b"r={nonce},s=c2FsdA==,i=4096", "challenge"),
        (b"r=other,s=c2FsdA==,i=4096", "challenge"),
        (b"r={nonce}abc,s=c2FsdA==,i=1", "challenge"),
        (b"r={nonce}abc,s=c2FsdA==,i=100000000", "challenge"),
        (b"r={nonce}abc,s=%,i=x", "challenge"),
        (b"\xff", "challenge"),
    ],
)
def test_a_broker_that_cannot_prove_that_it_knows_the_password_is_refused(challenge: bytes, wrong: str) -> None:
    def send(token: bytes) -> bytes:
        if b",p=" in token:
            return b"v=" + b"A" * 44
        return challenge.replace(b"{nonce}", token.rpartition(b"r=")[2])

    assert wrong in Login("ann", "the password").show("SCRAM-SHA-256", send)


def test_a_user_without_a_password_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(BadInput):
        warren.connect(broker.address, user="ann")
