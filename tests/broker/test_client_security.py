"""Our own client with passwords and TLS: let in where it should be, and told why where it is not."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.broker.running import RunningBroker, running_broker
from tests.unit.patience import WAIT_S
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerSettings
from warren.errors import BadInput, ConnectionLost, LoginFailed

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


def test_who_has_the_password_and_trusts_the_certificate_is_let_in(
    broker: RunningBroker, trusting: ssl.SSLContext
) -> None:
    with warren.connect(broker.address, tls=trusting, user="ann", password="the password", timeout=WAIT_S) as store:
        store.topic("orders").put(b"x" * 300_000)

        assert store.topic("orders").last(1)[0].body == b"x" * 300_000


@pytest.mark.parametrize(("user", "password"), [("ann", "another"), ("bob", "the password")])
def test_a_wrong_password_is_refused_at_once(
    broker: RunningBroker, trusting: ssl.SSLContext, user: str, password: str
) -> None:
    with pytest.raises(LoginFailed) as caught:
        warren.connect(broker.address, tls=trusting, user=user, password=password, timeout=WAIT_S)

    assert not caught.value.retryable
    assert password not in str(caught.value)


def test_who_does_not_say_who_they_are_gets_no_answer(broker: RunningBroker, trusting: ssl.SSLContext) -> None:
    with pytest.raises(ConnectionLost):
        warren.connect(broker.address, tls=trusting, timeout=0.5)


def test_a_certificate_that_is_not_trusted_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(ConnectionLost, match="certificate"):
        warren.connect(broker.address, tls=True, user="ann", password="the password", timeout=0.5)


def test_a_user_without_a_password_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(BadInput):
        warren.connect(broker.address, user="ann")
