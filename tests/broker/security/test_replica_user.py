"""The user of replicas: known by the secret of the cluster, in no file, by SCRAM only, and without quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.broker.quotas.entities import CONNECTIONS
from warren.broker.quotas.file import QuotasFile
from warren.broker.quotas.quotas import Quotas
from warren.broker.security.replica_user import LOGIN_PAUSE_S, REPLICA_USER, ReplicaUser
from warren.broker.security.scram import HASHES, Exchange, parse_first
from warren.broker.security.users import Users
from warren.broker.settings import MECHANISMS
from warren.errors import AuthenticationFailed, BadName
from warren.protocol.api_keys import ApiKey

SECRET, CLUSTER = "the secret", "0b5ad4a6"


@pytest.fixture(scope="module")
def replicas() -> ReplicaUser:
    return ReplicaUser(SECRET, CLUSTER, MECHANISMS)


def log_in(user: ReplicaUser, users: Users, mechanism: str) -> str:
    """Runs both sides of a login. Returns what the replica finds wrong with the broker's proof."""
    exchanges: list[Exchange] = []

    def send(token: bytes) -> bytes:
        if exchanges:
            return exchanges[0].final(token)
        first = parse_first(token)
        exchanges.append(Exchange(mechanism, first, users.scram_credential(first.user, mechanism), "broker"))
        return exchanges[0].challenge

    return user.login.show(mechanism, send)


@pytest.mark.parametrize("mechanism", HASHES)
def test_replicas_with_one_secret_prove_it_to_each_other(tmp_path: Path, replicas: ReplicaUser, mechanism: str) -> None:
    other = ReplicaUser(SECRET, CLUSTER, MECHANISMS)

    assert log_in(other, Users(str(tmp_path), replicas=replicas), mechanism) == ""


def test_another_secret_and_a_broker_without_replicas_are_refused(tmp_path: Path, replicas: ReplicaUser) -> None:
    other = ReplicaUser("another one", CLUSTER, ["SCRAM-SHA-512"])

    for user, users in ((other, Users(str(tmp_path), replicas=replicas)), (replicas, Users(str(tmp_path)))):
        with pytest.raises(AuthenticationFailed):
            log_in(user, users, "SCRAM-SHA-512")


def test_the_secret_is_no_password(tmp_path: Path, replicas: ReplicaUser) -> None:
    users = Users(str(tmp_path), replicas=replicas)

    assert users.proven(REPLICA_USER, SECRET) is None
    assert {each.user for each in users.kept_passwords()} == {REPLICA_USER}
    with pytest.raises(BadName):
        users.create(REPLICA_USER, "the password")


def test_no_quota_slows_a_replica_down(tmp_path: Path) -> None:
    quotas = Quotas(QuotasFile(str(tmp_path)), {"request_rate": 1.0, CONNECTIONS: 1.0}, lambda: 0.0)

    users = REPLICA_USER, "ann"
    waits = {user: [quotas.charge(user, "c", ApiKey.FETCH, 1, 1, 0.0) for _ in range(9)] for user in users}

    assert (max(waits[REPLICA_USER]), max(waits["ann"]) > 0) == (0.0, True)
    assert (quotas.most(CONNECTIONS, REPLICA_USER), quotas.most(CONNECTIONS, "ann")) == (None, 1.0)


def test_after_a_refused_login_the_next_one_waits() -> None:
    user = ReplicaUser(SECRET, CLUSTER, ["SCRAM-SHA-256"])

    before = user.pause_s(100.0)
    user.failed(100.0)

    assert (before, user.pause_s(101.0), user.pause_s(200.0)) == (0.0, LOGIN_PAUSE_S - 1, 0.0)
