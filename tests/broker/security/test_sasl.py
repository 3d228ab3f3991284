"""Logins: every mechanism with two clients, and nothing is answered before the login."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import warren
from tests.support.broker.process import run_warren
from tests.support.broker.running import HOST, PATIENCE_S, RunningBroker, running_broker
from tests.support.message_values import encode_request
from warren.broker.kafka.errors import Code
from warren.broker.security.sasl_session import TRANSITIONS, LoginEvent, LoginState, SaslSession
from warren.broker.security.scram import HASHES, Exchange, parse_first
from warren.broker.security.users import Users
from warren.broker.settings import BrokerSettings
from warren.errors import AuthenticationFailed, BadInput, BadName, NoSuchUser, UserExists
from warren.protocol.api_keys import ApiKey
from warren.protocol.primitives import INT32

aiokafka = pytest.importorskip("aiokafka")
confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
kafka = pytest.importorskip("kafka")
kafka_errors = pytest.importorskip("kafka.errors")

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "a wrong, hop=ping password"
METADATA_VERSION = 1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", PASSWORD)
        yield running


def client(broker: RunningBroker, mechanism: str, user: str, password: str, failed: Any = lambda error: None) -> Any:
    return admin.AdminClient(
        {
            "bootstrap.servers": broker.address,
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": failed,
        }
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_lets_confluent_kafka_in(broker: RunningBroker, mechanism: str) -> None:
    ann = client(broker, mechanism, "ann", PASSWORD)

    cluster = ann.list_topics(timeout=PATIENCE_S)

    assert cluster.cluster_id == broker.broker.cluster_id


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_lets_kafka_python_in(broker: RunningBroker, mechanism: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="ann",
        sasl_plain_password=PASSWORD,
    )
    try:
        stored = producer.send("orders", b"1").get(PATIENCE_S)
    finally:
        producer.close()

    assert stored.offset == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_lets_aiokafka_in(broker: RunningBroker, mechanism: str) -> None:
    async def put() -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="ann",
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        try:
            return await producer.send_and_wait("orders", b"1")
        finally:
            await producer.stop()

    stored = asyncio.run(put())

    assert stored.offset == 0


@pytest.mark.parametrize(("mechanism", "user"), [*product(MECHANISMS, ["ann", "unknown"])])
def test_a_wrong_password_is_refused_and_not_logged(
    broker: RunningBroker, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[Any] = []
    wrong = client(broker, mechanism, user, "not the password", errors.append)

    deadline = monotonic() + PATIENCE_S
    while not errors and monotonic() < deadline:
        wrong.poll(0.05)

    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert {connection.peer.user for connection in broker.broker.connections} <= {"ANONYMOUS"}
    assert "authentication failed" in caplog.text
    assert "not the password" not in caplog.text


def test_a_wrong_password_keeps_kafka_python_out(broker: RunningBroker) -> None:
    with pytest.raises(kafka_errors.KafkaError):
        kafka.KafkaAdminClient(
            bootstrap_servers=broker.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="ann",
            sasl_plain_password="not the password",
            request_timeout_ms=2000,
            bootstrap_timeout_ms=2000,
        )


class RawClient:
    """Requests as bytes, one after the other."""

    def __init__(self, broker: RunningBroker) -> None:
        self._socket = socket.create_connection((HOST, broker.broker.advertised[1]), PATIENCE_S)

    def ask(self, api_key: int, version: int, **values: Any) -> bytes:
        """Returns the body of the answer; empty if the connection was closed instead."""
        body = encode_request(api_key, version, values)
        head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff"
        self._socket.sendall(INT32.pack(len(head) + len(body)) + head + body)
        try:
            size = self._socket.recv(4)
            return self._socket.recv(int.from_bytes(size, "big"))[4:] if size else b""
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def raw(broker: RunningBroker) -> Iterator[RawClient]:
    connection = RawClient(broker)
    yield connection
    connection.close()


def test_nothing_but_versions_and_sasl_is_answered_before(raw: RawClient) -> None:
    versions = raw.ask(ApiKey.API_VERSIONS, 0)
    topics = raw.ask(ApiKey.METADATA, METADATA_VERSION, topics=None)

    assert versions
    assert topics == b""


def failure(raw: RawClient, mechanism: str, token: bytes) -> bytes:
    raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    return raw.ask(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=token)


@pytest.mark.parametrize(
    ("api_key", "version", "values", "code"),
    [
        (ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"}, Code.UNSUPPORTED_SASL_MECHANISM),
        (ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"}, Code.UNSUPPORTED_VERSION),
        (ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": b"\0ann\0" + PASSWORD.encode()}, Code.ILLEGAL_SASL_STATE),
    ],
)
def test_an_invalid_step_is_answered_and_logs_no_user_in(
    raw: RawClient, api_key: int, version: int, values: dict[str, Any], code: Code
) -> None:
    answer = raw.ask(api_key, version, **values)

    assert answer[:2] == code.to_bytes(2, "big")
    assert raw.ask(ApiKey.METADATA, METADATA_VERSION, topics=None) == b""


def test_an_authenticated_client_is_answered_until_it_fails_to_reauthenticate(raw: RawClient) -> None:
    raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    raw.ask(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=b"\0ann\0" + PASSWORD.encode())
    answer = raw.ask(ApiKey.METADATA, METADATA_VERSION, topics=None)
    failure(raw, "PLAIN", b"\0ann\0wrong password")

    assert answer
    assert raw.ask(ApiKey.METADATA, METADATA_VERSION, topics=None) == b""


def test_a_wrong_password_and_a_missing_user_get_the_same_answer(raw: RawClient) -> None:
    answers = {failure(raw, "PLAIN", b"\0%s\0wrong password" % user) for user in (b"ann", b"unknown")}

    assert len(answers) == 1
    assert answers.pop()[:2] == (58).to_bytes(2, "big")


def test_tries_are_limited(raw: RawClient) -> None:
    answers = [failure(raw, "PLAIN", b"\0ann\0wrong password") for _ in range(3)]

    assert all(answers)
    assert failure(raw, "PLAIN", b"\0ann\0" + PASSWORD.encode()) == b""


def test_a_client_that_takes_too_long_to_authenticate_is_disconnected(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.net.connection.AUTHENTICATION_S_MAX", 0.1)

    with socket.create_connection((HOST, broker.broker.advertised[1]), PATIENCE_S) as slow:
        slow.sendall(b"\0")
        try:
            received = slow.recv(1)
        except ConnectionResetError:
            received = b""

    assert received == b""


def test_a_large_request_of_an_unauthenticated_client_ends_the_connection(raw: RawClient) -> None:
    assert raw.ask(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=bytes(100_000)) == b""


@pytest.mark.parametrize(
    "token",
    [b"", b"\xff", b"\0", b"ann\0bob\0" + PASSWORD.encode(), b"\0ann\0" + PASSWORD.encode() + b"\0"],
)
def test_a_malformed_plain_token_is_refused(raw: RawClient, token: bytes) -> None:
    assert failure(raw, "PLAIN", token)[:2] == (58).to_bytes(2, "big")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=ann",
        b"n,,r=1",
        b"p=tls-unique,,n=ann,r=1",
        b"n,a=bob,n=ann,r=1",
        b"n,,m=x,n=ann,r=1",
    ],
)
def test_a_malformed_first_message_of_scram_is_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        parse_first(token)


@pytest.mark.parametrize("final", [b"", b"p=", b"c=biws,r=1,p=AAAA", b"c=biws,r=12,p=!", b"c=biws,r=12"])
def test_a_wrong_proof_is_refused(tmp_path: Path, final: bytes) -> None:
    users = Users(str(tmp_path))
    users.create("ann", PASSWORD)
    first = parse_first(b"n,,n=ann,r=1")
    exchange = Exchange("SCRAM-SHA-256", first, users.credential("ann", "SCRAM-SHA-256"), "2")

    with pytest.raises(AuthenticationFailed):
        exchange.final(final)


@pytest.mark.parametrize(("state", "event"), [*product(LoginState, LoginEvent)])
def test_every_pair_of_state_and_event_is_a_step_or_a_bug(tmp_path: Path, state: LoginState, event: LoginEvent) -> None:
    session = SaslSession(Users(str(tmp_path)))
    session.state = state

    if (state, event) in TRANSITIONS:
        session.happened(event)
    else:
        with pytest.raises(KeyError):
            session.happened(event)

    assert session.state is TRANSITIONS.get((state, event), state)
    assert session.may_ask(ApiKey.PRODUCE) == (session.state is LoginState.KNOWN)


@pytest.mark.parametrize("mechanism", HASHES)
def test_an_unknown_user_always_has_the_same_salt(tmp_path: Path, mechanism: str) -> None:
    Users(str(tmp_path)).create("ann", PASSWORD)
    before, after = Users(str(tmp_path)), Users(str(tmp_path))

    salts = {users.credential(name, mechanism).salt for users in (before, after) for name in ("bob", "eve")}

    assert len(salts) == 2
    assert not after.proven("bob", "")


def test_passwords_are_not_in_the_store_and_others_cannot_read_the_file(tmp_path: Path) -> None:
    users = Users(str(tmp_path))
    users.create("ann", PASSWORD)
    users.create("bob", "another password")
    users.create("bob", "a third password", replaces=True)

    path = tmp_path / "users.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "password" not in path.read_text()
    assert users.names() == ["ann", "bob"]
    assert users.proven("bob", "a third password")
    assert not users.proven("bob", "another password")


def test_a_user_is_created_once_and_deleted_once(tmp_path: Path) -> None:
    users = Users(str(tmp_path))
    users.create("ann", PASSWORD)

    with pytest.raises(UserExists):
        users.create("ann", PASSWORD)
    users.delete("ann")
    with pytest.raises(NoSuchUser):
        users.delete("ann")


@pytest.mark.parametrize("name", ["", " ann", "a:b", "*", "a\nb", "a" * 300])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadName):
        Users(str(tmp_path)).create(name, PASSWORD)


@pytest.mark.parametrize("password", ["", "short", "x" * 2000, "null\0inside"])
def test_an_invalid_password_is_refused(tmp_path: Path, password: str) -> None:
    with pytest.raises(BadInput):
        Users(str(tmp_path)).create("ann", password)


def test_the_command_makes_lists_and_deletes_users_and_shows_no_password(tmp_path: Path) -> None:
    warren.open(tmp_path / "data").close()
    (tmp_path / "secret").write_text("from a file\n")

    made = run_warren("user", "create", "ann", "--store", "data", folder=tmp_path, stdin=f"{PASSWORD}\n")
    from_file = run_warren("user", "create", "bob", "--password-file", "secret", "--store", "data", folder=tmp_path)
    listed = run_warren("user", "list", "--store", "data", folder=tmp_path)
    deleted = run_warren("user", "delete", "bob", "--store", "data", folder=tmp_path)

    assert [each.returncode for each in (made, from_file, listed, deleted)] == [0, 0, 0, 0]
    assert listed.stdout == "ann\nbob\n"
    assert "password" not in made.stdout + made.stderr
    users = Users(str(tmp_path / "data"))
    assert users.names() == ["ann"]
    assert users.proven("ann", PASSWORD)


def test_the_first_user_creates_the_store_and_json_lists_the_users(tmp_path: Path) -> None:
    made = run_warren("user", "create", "ann", "--store", "data", "--json", folder=tmp_path, stdin=f"{PASSWORD}\n")
    deleted = run_warren("user", "delete", "ann", "--store", "data", "--json", folder=tmp_path)
    listed = run_warren("user", "list", "--store", "data", folder=tmp_path)

    assert made.stderr == "created the store data\n"
    assert json.loads(made.stdout) == {"user": "ann", "may_connect": True}
    assert json.loads(deleted.stdout) == {"user": "ann", "may_connect": False}
    assert listed.stdout == "no users\n"
