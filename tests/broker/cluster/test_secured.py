"""A cluster with users and TLS: real processes that log in to each other, and check each other's certificates."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import warren
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.process import run_warren
from warren.broker.security.users import Users
from warren.client.store import RemoteStore
from warren.errors import OutcomeUnknown

trustme = pytest.importorskip("trustme")
USER, PASSWORD, SECRET = "ann", "the password", "0123456789abcdef"


def until_within(condition: Callable[[], bool], says: Callable[[], str] = str) -> None:
    """Waits until a condition of several processes is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, says()
        time.sleep(0.02)


@dataclass
class Secured:
    """A cluster whose brokers have users and TLS."""

    cluster: ProcessCluster
    folder: Path

    @property
    def authority(self) -> str:
        return str(self.folder / "authority.pem")

    def connect(self, rack: str | None = None) -> RemoteStore:
        return warren.connect(
            self.cluster.brokers, timeout=PATIENCE_S, user=USER, password=PASSWORD, ca=self.authority, rack=rack
        )

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `warren cluster …` with the secret of the cluster and the login of the user."""
        options = (
            *("--root", self.cluster.root, "--secret-file", "secret"),
            *("--user", USER, "--password-file", "password", "--ca", self.authority),
        )
        return run_warren("cluster", command, self.cluster.addresses, *arguments, *options, folder=self.folder)

    def wait_for_line(self, replica: int, line: str) -> None:
        process = self.cluster.replicas[replica]
        until_within(lambda: line in process.output(), process.output)


def write_files(folder: Path) -> None:
    """Writes the configuration of all replicas, and the files that it names."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(folder / "broker.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "stranger.pem"))
    for name, text in (("secret", SECRET), ("other-secret", "fedcba9876543210"), ("password", PASSWORD)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    (folder / "warren.toml").write_text(
        """
        [security]
        sasl = true
        rights = true
        super_users = ["ann"]
        [tls]
        certificate = "broker.pem"
        replica_ca = "authority.pem"
        [cluster]
        secret_file = "secret"
        """
    )


@contextmanager
def secured(folder: Path, zookeeper: RunningServer) -> Iterator[Secured]:
    write_files(folder)
    warren.open(folder / "replica-0").close()
    Users(str(folder / "replica-0")).create(USER, PASSWORD)
    with process_cluster(folder, zookeeper, secret=SECRET) as cluster:
        cluster.all_in_sync()
        yield Secured(cluster, folder)


class Puts:
    """Puts of our client in a thread, and which of them were acknowledged."""

    def __init__(self, cluster: Secured) -> None:
        self._cluster, self._is_over = cluster, threading.Event()
        self.acknowledged: list[bytes] = []
        self.unknown: list[bytes] = []
        self._thread = threading.Thread(target=self._put)

    def __enter__(self) -> Puts:
        self._thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: Any) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    def _put(self) -> None:
        with self._cluster.connect() as store:
            topic = store.topic("orders")
            while not self._is_over.is_set():
                body = b"%d" % (len(self.acknowledged) + len(self.unknown))
                try:
                    topic.put(body)
                    self.acknowledged.append(body)
                except OutcomeUnknown:
                    self.unknown.append(body)

    def wait_for_more(self, count: int = 30) -> None:
        more = len(self.acknowledged) + count
        until_within(lambda: len(self.acknowledged) >= more)


def check_nothing_lost(cluster: Secured, puts: Puts) -> None:
    with cluster.connect() as store:
        bodies = [message.body for log in store.topic("orders").logs for message in log.read(0, limit=1_000_000)]
    assert not set(puts.acknowledged) - set(bodies)
    assert len(bodies) == len(set(bodies))
    assert not set(bodies) - set(puts.acknowledged) - set(puts.unknown)


def test_replicas_log_in_and_continue_when_the_master_dies(tmp_path: Path, zookeeper: RunningServer) -> None:
    with secured(tmp_path, zookeeper) as made:
        cluster = made.cluster
        first = cluster.master()
        # A command at the master changes its file without the broker, and the slaves get it.
        made_user = run_warren(
            *("user", "create", "bob", "--password-file", "password", "--store", str(cluster.data(first))),
            folder=tmp_path,
        )
        assert made_user.returncode == 0, made_user.stderr
        users = [Users(str(cluster.data(each))) for each in cluster.settings.replicas]
        until_within(lambda: all("bob" in each.names() for each in users))
        with Puts(made) as puts:
            os.kill(cluster.replicas[first].child, signal.SIGKILL)
            second = cluster.master(2)
            puts.wait_for_more()
            # The one that died logs in to the new master.
            cluster.all_in_sync()

        assert second != first
        check_nothing_lost(made, puts)
        assert _produced(made) == 0
        with made.connect(f"rack-{first}") as store:
            assert [message.number for message in store.topic("orders").partition(0).read(0, limit=10)] == [*range(10)]
            assert store.reads.address == f"{HOST}:{cluster.ports[first]}"


def _produced(made: Secured) -> int:
    """Puts with an idempotent producer, which asks any replica for its id. Returns how many puts are left."""
    producer = Producer(
        {
            "bootstrap.servers": made.cluster.brokers,
            "enable.idempotence": True,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": made.authority,
            "log_level": 0,
        }
    )
    for number in range(10):
        producer.produce("kafka", b"%d" % number)
    return producer.flush(PATIENCE_S)


def test_a_replica_with_a_wrong_secret_or_authority_logs_the_reason_and_nothing_is_lost(
    tmp_path: Path, zookeeper: RunningServer
) -> None:
    with secured(tmp_path, zookeeper) as made:
        cluster = made.cluster
        master = cluster.master()
        slave, other = (each for each in cluster.settings.replicas if each != master)
        with Puts(made) as puts:
            cluster.replicas[slave].kill()
            cluster.start(slave, WARREN_TLS_REPLICA_CA="stranger.pem")
            made.wait_for_line(slave, "its certificate was not accepted")
            puts.wait_for_more()
            cluster.replicas[slave].kill()
            cluster.start(slave, WARREN_CLUSTER_SECRET_FILE="other-secret")
            made.wait_for_line(slave, "secret")
            puts.wait_for_more()
            cluster.replicas[slave].kill()
            cluster.start(slave)

            cluster.all_in_sync()

            # It can lead with everything.
            cluster.replicas[other].kill()
            os.kill(cluster.replicas[master].child, signal.SIGKILL)
            cluster.master(2)
            puts.wait_for_more()
        check_nothing_lost(made, puts)


def test_a_replica_with_logins_and_no_secret_does_not_start(tmp_path: Path) -> None:
    write_files(tmp_path)
    for variables, sentence in (
        ({"WARREN_CLUSTER_SECRET_FILE": ""}, "openssl rand -hex 32"),
        ({"WARREN_SECURITY_MECHANISMS": "PLAIN"}, "add SCRAM-SHA-512"),
        ({"WARREN_SECURITY_SASL": "false"}, "it needs security.sasl"),
        ({"WARREN_TLS_REPLICA_CA": "nowhere.pem"}, "nowhere.pem cannot be read"),
    ):
        refused = run_warren(
            "serve", "data", "--cluster", "127.0.0.1:1", "--replica", "0", folder=tmp_path, **variables
        )

        assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr


def test_the_commands_log_in(tmp_path: Path, zookeeper: RunningServer) -> None:
    with secured(tmp_path, zookeeper) as made:
        first = made.cluster.master()
        to = next(each for each in (2, 1) if each != first)

        status = made.run("status")
        doctor = made.run("doctor")
        hand_over = made.run("hand-over", "--to", str(to))
        stranger = run_warren(
            *("cluster", "doctor", made.cluster.addresses, "--root", made.cluster.root, "--secret-file", "secret"),
            *("--ca", made.authority),
            folder=tmp_path,
        )

        assert status.returncode == 0, status.stdout + status.stderr
        # Only a master that answers says for how long its slaves have been silent.
        assert "0.0 s" in status.stdout
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert f"replica {to} leads shard 0" in hand_over.stdout, hand_over.stderr
        assert stranger.returncode == 1
        assert "requires a login" in stranger.stdout
