"""TLS: only clients that trust the broker's certificate are served."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.process import ServedStore, served_store
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.security.tls import tls_context
from warren.broker.security.users import Users
from warren.broker.settings import BrokerSettings
from warren.errors import BadConfiguration

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
kafka = pytest.importorskip("kafka")
trustme = pytest.importorskip("trustme")
pytestmark = LEAVES_SOCKETS

LONG_AGO = datetime.now(UTC) - timedelta(days=2)


@pytest.fixture
def authority() -> Any:
    return trustme.CA()


def certificate(authority: Any, folder: Path, **options: Any) -> str:
    """A file with a certificate for loopback, and its key."""
    path = folder / "broker.pem"
    authority.issue_cert("127.0.0.1", **options).private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def trusted(authority: Any, folder: Path) -> str:
    path = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def broker(tmp_path: Path, authority: Any) -> Iterator[RunningBroker]:
    tls = tls_context(certificate(authority, tmp_path))
    with running_broker(tmp_path / "data", tls=tls, settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", "the password")
        yield running


def settings(broker: RunningBroker | ServedStore, authority_path: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "log_level": 0,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "the password",
        "ssl.ca.location": authority_path,
        "error_cb": lambda error: None,
    }


def test_confluent_kafka_produces_over_tls_with_a_password(
    broker: RunningBroker, authority: Any, tmp_path: Path
) -> None:
    out = confluent_kafka.Producer(settings(broker, trusted(authority, tmp_path)))
    for number in range(1000):
        out.produce("orders", b"%d" % number + b"." * 1000)

    unsent_count = out.flush(PATIENCE_S)

    assert unsent_count == 0
    assert broker.broker.store.topic("orders").partition(0).end == 1000


def test_a_broker_process_is_as_secure_as_its_file_says(authority: Any, tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text(
        f"""
        [tls]
        certificate = "{certificate(authority, tmp_path)}"
        [security]
        sasl = true
        mechanisms = ["SCRAM-SHA-512"]
        rights = true
        super_users = ["ann"]
        """
    )
    warren.open(tmp_path / "data").close()
    for user in ("ann", "bob"):
        Users(str(tmp_path / "data")).create(user, "the password")
    errors: list[Any] = []
    with served_store(tmp_path / "data") as served:
        for user in ("ann", "bob"):
            out = confluent_kafka.Producer(settings(served, trusted(authority, tmp_path)) | {"sasl.username": user})
            for _ in range(300):
                out.produce("orders", bytes(10_000), on_delivery=lambda error, message: errors.append(error))
            assert out.flush(PATIENCE_S) == 0

        code = served.end(signal.SIGTERM)

    assert errors[:300] == [None] * 300
    assert {error.code() for error in errors[300:]} == {confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert code == 0


def test_kafka_python_produces_over_tls_with_a_password(broker: RunningBroker, authority: Any, tmp_path: Path) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address,
        security_protocol="SASL_SSL",
        ssl_cafile=trusted(authority, tmp_path),
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="ann",
        sasl_plain_password="the password",
    )
    try:
        stored = producer.send("orders", b"1").get(PATIENCE_S)
    finally:
        producer.close()

    assert stored.offset == 0


def test_a_client_that_does_not_trust_the_certificate_sends_nothing(broker: RunningBroker, tmp_path: Path) -> None:
    client = admin.AdminClient(settings(broker, trusted(trustme.CA(), tmp_path)))

    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=1.0)


def test_an_expired_certificate_is_refused_by_clients(tmp_path: Path, authority: Any) -> None:
    tls = tls_context(certificate(authority, tmp_path, not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)))
    with running_broker(tmp_path / "data", tls=tls) as running:
        options = settings(running, trusted(authority, tmp_path)) | {"security.protocol": "SSL"}
        client = admin.AdminClient(options)

        with pytest.raises(confluent_kafka.KafkaException):
            client.list_topics(timeout=1.0)


@pytest.mark.parametrize("has_certificate", [True, False])
def test_with_an_authority_for_clients_only_clients_with_its_certificates_are_served(
    tmp_path: Path, authority: Any, has_certificate: bool
) -> None:
    path = trusted(authority, tmp_path)
    tls = tls_context(certificate(authority, tmp_path), client_ca=path)
    mine = tmp_path / "mine.pem"
    authority.issue_cert("ann@example.org").private_key_and_cert_chain_pem.write_to_path(str(mine))
    with running_broker(tmp_path / "data", tls=tls) as running:
        options = settings(running, path) | {"security.protocol": "SSL"}
        if has_certificate:
            options |= {"ssl.certificate.location": str(mine), "ssl.key.location": str(mine)}
        client = admin.AdminClient(options)

        if has_certificate:
            assert client.list_topics(timeout=PATIENCE_S).brokers
        else:
            with pytest.raises(confluent_kafka.KafkaException):
                client.list_topics(timeout=1.0)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "rubbish.pem").write_text("rubbish")

    for options in ({"certificate": "gone.pem"}, {"certificate": str(tmp_path / "rubbish.pem")}):
        with pytest.raises(BadConfiguration, match=r"gone\.pem|rubbish\.pem"):
            tls_context(**options)
    with pytest.raises(BadConfiguration, match=r"tls\.certificate"):
        tls_context("", key="key.pem")
    assert tls_context("") is None
