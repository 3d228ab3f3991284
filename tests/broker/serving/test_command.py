"""`warren serve`: starts, stops, and starts again after any end, and explains clearly why it cannot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from tests.support.broker.process import PATIENCE_S, run_warren, served_store
from tests.support.broker.running import running_broker
from tests.support.message_values import encode_request
from tests.tidy.source import SOURCE
from warren.protocol.api_keys import ApiKey

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

FETCH_VERSION = 4
LARGE = 32 << 20


def test_acknowledged_messages_survive_a_kill_and_a_restart(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    with served_store(tmp_path / "data") as broker:
        out = confluent_kafka.Producer(
            {"bootstrap.servers": broker.address, "log_level": 0, "acks": "all", "linger.ms": 1}
        )
        for number in range(2000):
            out.produce(
                "orders",
                b"%d" % number,
                on_delivery=lambda error, message: None if error else acknowledged.append(int(message.value())),
            )
            out.poll(0)
        while len(acknowledged) < 500:
            out.poll(0.1)
        how = broker.end(signal.SIGKILL)
        out.purge()
        out.flush(1)

    with served_store(tmp_path / "data") as broker:
        settings = {
            "bootstrap.servers": broker.address,
            "log_level": 0,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
        into = confluent_kafka.Consumer(settings)
        into.subscribe(["orders"])
        numbers: set[int] = set()
        while not set(acknowledged) <= numbers:
            message = into.poll(PATIENCE_S)
            assert message is not None
            numbers.add(int(message.value()))
        into.close()

    assert how == -signal.SIGKILL
    assert len(acknowledged) >= 500


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_although_a_consumer_waits(tmp_path: Path, how: signal.Signals) -> None:
    with served_store(tmp_path / "data") as broker:
        out = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 0})
        out.produce("orders", b"1")
        assert out.flush(PATIENCE_S) == 0
        settings = {
            "bootstrap.servers": broker.address,
            "log_level": 0,
            "group.id": "readers",
            "enable.auto.commit": False,
        }
        into = confluent_kafka.Consumer(settings | {"fetch.wait.max.ms": 50_000})
        into.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        assert into.poll(PATIENCE_S) is not None

        code = broker.end(how)
        into.close()

        assert code == 0
        assert [line["message"] for line in broker.log()] == [f"{how.name}: stopping", "stopped"]


def unread_answer(address: str) -> socket.socket:
    """A client that requests more than fits into the buffers, and reads nothing."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": LARGE}
    fields = {"max_bytes": LARGE, "topics": [{"topic": "orders", "partitions": [partition]}]}
    body = encode_request(ApiKey.FETCH, FETCH_VERSION, fields)
    head = bytes([0, ApiKey.FETCH, 0, FETCH_VERSION, 0, 0, 0, 1, 255, 255])
    host, _, port = address.rpartition(":")
    client = socket.create_connection((host, int(port)), PATIENCE_S)
    client.sendall((len(head) + len(body)).to_bytes(4, "big") + head + body)
    assert client.recv(1)
    return client


@pytest.fixture
def large_store(tmp_path: Path) -> Path:
    with warren.open(tmp_path / "data") as store:
        store.topic("orders").put(bytes(LARGE // 2))
    return tmp_path / "data"


def test_a_client_that_does_not_read_keeps_it_no_longer_than_the_limit(large_store: Path) -> None:
    (large_store.parent / "warren.toml").write_text("[limits]\nstop_s_max = 0.2\n")
    with served_store(large_store) as broker, unread_answer(broker.address):
        code = broker.end(signal.SIGTERM)
        lines = [line["message"] for line in broker.log()]

    assert code == 0
    assert lines == ["SIGTERM: stopping", "1 connections were not answered in time", "stopped"]


def test_a_second_signal_ends_it_immediately(large_store: Path) -> None:
    with served_store(large_store) as broker, unread_answer(broker.address):
        assert broker.process.stderr is not None
        broker.process.send_signal(signal.SIGTERM)
        stopping = broker.process.stderr.readline()
        code = broker.end(signal.SIGTERM)

    assert "stopping" in stopping
    assert code == -signal.SIGTERM


def test_no_more_connections_than_the_limit_are_accepted_and_the_others_continue(tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text("[limits]\nconnections_max = 1\n")
    with served_store(tmp_path / "data") as broker:
        host, _, port = broker.address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as first:
            first.sendall(asked_versions(1))
            assert first.recv(4)
            with socket.create_connection((host, int(port)), PATIENCE_S) as second:
                refused = nothing_came(second)
            first.sendall(asked_versions(2))
            goes_on = first.recv(4)
        broker.end(signal.SIGTERM)
        lines = [line["message"] for line in broker.log()]

    assert refused
    assert goes_on
    assert [line for line in lines if "refused: 1 are open" in line]


def asked_versions(correlation_id: int) -> bytes:
    """Returns the frame of an ApiVersions request."""
    head = bytes([0, ApiKey.API_VERSIONS, 0, 0]) + correlation_id.to_bytes(4, "big") + b"\xff\xff"
    return len(head).to_bytes(4, "big") + head


def nothing_came(client: socket.socket) -> bool:
    """Returns whether the broker has closed the connection without sending a byte."""
    try:
        return not client.recv(1)
    except ConnectionResetError:
        return True


def test_a_second_broker_of_a_store_names_the_first(tmp_path: Path) -> None:
    with served_store(tmp_path / "data") as broker:
        completed = run_warren("serve", "data", "--port", "0", folder=tmp_path)

    assert completed.returncode == 1
    assert completed.stderr == f"another broker serves {tmp_path / 'data'}: process {broker.process.pid}\n"


def test_ping_distinguishes_a_live_broker_from_a_dead_one(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        there = run_warren("ping", broker.address, "--json", folder=tmp_path)
    gone = run_warren("ping", broker.address, folder=tmp_path)

    assert there.returncode == 0
    assert json.loads(there.stdout)["answers"] == 5
    assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        completed = run_warren("serve", "data", "--port", str(port), folder=tmp_path)

    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr == f"cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_store_that_is_missing_is_made(tmp_path: Path) -> None:
    with served_store(tmp_path / "data") as broker:
        completed = run_warren("topic", "create", "orders", "--server", broker.address, folder=tmp_path)

    assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "data" / "store.json").exists()


def test_a_file_is_not_served_as_a_store(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a store")

    completed = run_warren("serve", "data", "--port", "0", folder=tmp_path)

    assert (completed.returncode, completed.stderr.count("\n")) == (1, 1)
    assert (tmp_path / "data").read_text() == "not a store"


def test_a_missing_package_of_the_broker_is_one_sentence(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['re2'] = None\nfrom warren.cli.main import main; main()"

    completed = subprocess.run(
        [sys.executable, "-c", hidden, "serve", "data"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (completed.returncode, completed.stdout) == (1, "")
    assert "(google-re2): `pip install 'warren[broker]'`" in completed.stderr
    assert completed.stderr.count("\n") == 1


def test_other_machines_are_not_served_without_authentication_unless_allowed(tmp_path: Path) -> None:
    completed = run_warren("serve", "data", "--host", "0.0.0.0", folder=tmp_path)

    assert completed.returncode == 2
    assert "--insecure" in completed.stderr
    assert completed.stderr.count("\n") == 1


def test_clients_get_the_advertised_address(tmp_path: Path) -> None:
    with served_store(tmp_path / "data", "--advertise", "broker.example:19092") as broker:
        client = admin.AdminClient({"bootstrap.servers": broker.address, "log_level": 0})

        brokers = client.list_topics(timeout=PATIENCE_S).brokers

    assert [(each.host, each.port) for each in brokers.values()] == [("broker.example", 19092)]


def test_the_embedded_store_stays_open_to_others(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data"), warren.open(tmp_path / "data") as store:
        receipt = store.topic("orders").put(b"1")

    assert receipt.number == 0
