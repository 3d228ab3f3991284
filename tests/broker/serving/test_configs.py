"""Admin clients see the settings of topics and of the broker, and change those of topics while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.configuration import read_configuration
from warren.broker.settings import BrokerSettings

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
kafka = pytest.importorskip("kafka")
kafka_admin = pytest.importorskip("kafka.admin")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    settings = read_configuration(None, {"WARREN_LIMITS_CONNECTIONS_MAX": "77"}, {}).settings()
    with running_broker(tmp_path / "data", settings=settings) as running:
        running.broker.store.topic("orders")
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Any:
    return admin.AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def described(client: Any, kind: str, name: str) -> dict[str, Any]:
    resource = admin.ConfigResource(kind, name)
    entries: dict[str, Any] = client.describe_configs([resource])[resource].result(PATIENCE_S)
    return entries


def altered(client: Any, kind: str, name: str, *changes: tuple[str, str | None, str], **options: Any) -> None:
    entries = [
        admin.ConfigEntry(key, value, incremental_operation=admin.AlterConfigOpType[how]) for key, value, how in changes
    ]
    resource = admin.ConfigResource(kind, name, incremental_configs=entries)
    client.incremental_alter_configs([resource], **options)[resource].result(PATIENCE_S)


def test_a_topic_shows_its_settings_and_their_sources(broker: RunningBroker, client: Any) -> None:
    broker.broker.store.topic("orders").configure(retention_bytes=1 << 30)

    entries = described(client, "topic", "orders")

    assert entries["retention.bytes"].value == str(1 << 30)
    assert entries["retention.bytes"].source == admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert entries["retention.ms"].value == "-1"
    assert entries["retention.ms"].source == admin.ConfigSource.DEFAULT_CONFIG.value
    assert entries["cleanup.policy"].is_read_only
    assert not entries["retention.ms"].is_read_only


@pytest.mark.parametrize(("default", "source"), [("none", "DEFAULT_CONFIG"), ("plain", "STATIC_BROKER_CONFIG")])
def test_a_topic_without_deliver_at_shows_the_brokers_default(tmp_path: Path, default: str, source: str) -> None:
    with running_broker(tmp_path / "data", settings=BrokerSettings(deliver_at=default)) as running:
        topic = running.broker.store.topic("orders")
        client = admin.AdminClient({"bootstrap.servers": running.address, "log_level": 0})

        entry = described(client, "topic", "orders")["warren.deliver.at"]
        altered(client, "topic", "orders", ("warren.deliver.at", "all", "SET"))
        changed = described(client, "topic", "orders")["warren.deliver.at"]
        altered(client, "topic", "orders", ("warren.deliver.at", None, "DELETE"))
        again = described(client, "topic", "orders")["warren.deliver.at"]

        assert (entry.value, entry.source) == (default, admin.ConfigSource[source].value)
        assert (changed.value, changed.source) == ("all", admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
        assert (again.value, topic.settings.deliver_at) == (default, None)


def test_a_change_takes_effect_without_a_restart(broker: RunningBroker, client: Any) -> None:
    altered(client, "topic", "orders", ("max.message.bytes", "2000", "SET"))
    failures: list[Any] = []
    out = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 0})
    out.produce("orders", b"." * 3000, on_delivery=lambda error, message: failures.append(error.code()))
    out.flush(PATIENCE_S)

    altered(client, "topic", "orders", ("max.message.bytes", None, "DELETE"))
    out.produce("orders", b"." * 3000, on_delivery=lambda error, message: failures.append(error))
    out.flush(PATIENCE_S)

    assert failures == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE, None]


def test_a_change_that_is_only_tried_changes_nothing(broker: RunningBroker, client: Any) -> None:
    altered(client, "topic", "orders", ("retention.ms", "1000", "SET"), validate_only=True)

    assert broker.broker.store.topic("orders").settings.retention_age_s is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.mss", "1", "SET"), "INVALID_CONFIG"),
        (("retention.ms", "soon", "SET"), "INVALID_CONFIG"),
        (("retention.ms", "0", "SET"), "INVALID_CONFIG"),
        (("cleanup.policy", "compact", "SET"), "INVALID_CONFIG"),
        (("cleanup.policy", "compact", "APPEND"), "INVALID_REQUEST"),
    ],
)
def test_bad_settings_are_refused_and_change_nothing(
    broker: RunningBroker, client: Any, change: tuple[str, str, str], code: str
) -> None:
    before = broker.broker.store.topic("orders").settings

    with pytest.raises(confluent_kafka.KafkaException) as caught:
        altered(client, "topic", "orders", change)

    assert caught.value.args[0].code() == getattr(confluent_kafka.KafkaError, code)
    assert change[0] in caught.value.args[0].str()
    assert broker.broker.store.topic("orders").settings == before


def test_a_topic_that_is_not_there_has_no_settings(client: Any) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        described(client, "topic", "gone")

    assert caught.value.args[0].code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_broker_shows_its_configuration_and_does_not_change_it(client: Any) -> None:
    entries = described(client, "broker", "0")

    assert entries["warren.limits.connections_max"].value == "77"
    assert entries["warren.limits.connections_max"].source == admin.ConfigSource.STATIC_BROKER_CONFIG.value
    assert all(each.is_read_only for each in entries.values())
    with pytest.raises(confluent_kafka.KafkaException):
        altered(client, "broker", "0", ("warren.limits.connections_max", "1", "SET"))


def test_kafka_python_sees_and_changes_settings_too(broker: RunningBroker) -> None:
    client = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    kind = kafka_admin.ConfigResourceType.TOPIC
    try:
        client.alter_configs([kafka_admin.ConfigResource(kind, "orders", configs={"retention.ms": "60000"})])
        entries = client.describe_configs([kafka_admin.ConfigResource(kind, "orders")])
    finally:
        client.close()

    assert broker.broker.store.topic("orders").settings.retention_age_s == 60
    assert "60000" in str(entries)
