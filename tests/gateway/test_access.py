"""Who may do what over HTTP: the broker's own users, passwords, rights and certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.http import Http, running_http
from warren.broker.configuration import read_configuration
from warren.broker.security.rights import CLUSTER_NAME, Operation, Pattern, Permission, ResourceKind, Right
from warren.broker.security.tls import tls_context
from warren.broker.server import check_address
from warren.broker.settings import BrokerSettings
from warren.errors import OpenToAll

trustme = pytest.importorskip("trustme")

PASSWORD = "the password"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    settings = BrokerSettings(sasl=True, rights=True, super_users=frozenset({"root"}))
    with running_http(tmp_path_factory.mktemp("access") / "data", settings=settings) as server:
        for user in ("root", "ann", "bob"):
            server.broker.users.create(user, PASSWORD)
        rights = server.broker.rights
        assert rights is not None
        rights.file.add(
            [
                right(ResourceKind.TOPIC, "orders", Operation.READ),
                right(ResourceKind.TOPIC, "mine", Operation.WRITE),
                right(ResourceKind.TOPIC, "mine", Operation.CREATE),
                right(ResourceKind.GROUP, "workers", Operation.READ),
            ]
        )
        as_user(server, "root").put("orders", "secret")
        server.put("others", "secret")
        yield server


def right(kind: ResourceKind, name: str, operation: Operation, user: str = "ann") -> Right:
    return Right(kind, name, Pattern.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)


def as_user(served: Http, user: str | None, password: str = PASSWORD) -> Http:
    served.login = None if user is None else (user, password)
    return served


LOGINS = [None, ("ann", "a wrong one"), ("unknown", PASSWORD), ("", "")]


@pytest.mark.parametrize(
    ("login", "path"),
    [
        *[(login, "/v1/topics/orders/messages") for login in LOGINS],
        *[(None, path) for path in ("/v1/topics", "/metrics", "/")],
    ],
)
def test_a_request_without_credentials_gets_401(served: Http, login: tuple[str, str] | None, path: str) -> None:
    served.login = login

    answered = served.ask("GET", path)

    assert answered.problem == (401, "authentication_failed")
    assert answered.headers["WWW-Authenticate"].startswith("Basic ")
    assert "secret" not in answered.data.decode()


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic YQ==", "Bearer abc", "Basic /w=="])
def test_an_authorization_header_without_a_user_is_refused(served: Http, header: str) -> None:
    answered = as_user(served, None).ask("GET", "/v1/topics", Authorization=header)

    assert answered.problem == (401, "authentication_failed")


def test_health_and_openapi_need_no_login(served: Http) -> None:
    as_user(served, None)

    assert [served.ask("GET", path).status for path in ("/healthz", "/readyz", "/openapi.json")] == [200] * 3


def test_every_user_sees_and_does_what_the_rights_allow(served: Http) -> None:
    as_user(served, "ann")

    assert [topic["topic"] for topic in served.get("/v1/topics")["topics"]] == ["orders"]
    assert served.get("/v1/topics/orders/messages")["messages"][0]["body"] == "secret"
    assert served.put("mine", "made by a put")["places"]
    assert served.ask("POST", "/v1/topics/orders/groups/workers/take", {}).status == 200
    assert b">orders<" in served.ask("GET", "/").data
    assert b">others<" not in served.ask("GET", "/").data


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/topics/others/messages", None),
        ("GET", "/v1/topics/others", None),
        ("GET", "/v1/topics/mine/messages", None),
        ("POST", "/v1/topics/orders/messages", {"messages": [{"body": "a"}]}),
        ("POST", "/v1/topics/new/messages", {"messages": [{"body": "a"}]}),
        ("POST", "/v1/topics", {"topic": "new"}),
        ("PATCH", "/v1/topics/orders", {"partitions": 2}),
        ("DELETE", "/v1/topics/orders", None),
        ("POST", "/v1/topics/orders/groups/others/take", {}),
        ("POST", "/v1/topics/mine/groups/workers/take", {}),
        ("DELETE", "/v1/topics/orders/groups/workers", None),
        ("DELETE", "/v1/topics/orders/scheduled/hour-0-1", None),
        ("GET", "/metrics", None),
        ("GET", "/v1/statistics", None),
    ],
)
def test_a_request_without_the_right_is_refused(served: Http, method: str, path: str, body: object) -> None:
    answered = as_user(served, "ann").ask(method, path, body)

    assert answered.problem == (403, "no_right")


def test_metrics_need_a_right_to_the_cluster(served: Http) -> None:
    assert served.broker.rights is not None
    served.broker.rights.file.add([right(ResourceKind.CLUSTER, CLUSTER_NAME, Operation.DESCRIBE, "bob")])

    statuses = set()
    for _ in range(1000):
        statuses.add(as_user(served, "bob").ask("GET", "/metrics").status)
        if 200 in statuses:
            break

    assert 200 in statuses
    assert as_user(served, "root").ask("GET", "/v1/statistics").status == 200


@pytest.mark.parametrize(("is_local", "status"), [(True, 200), (False, 401)])
def test_without_tls_passwords_are_refused(tmp_path: Path, is_local: bool, status: int) -> None:
    settings = BrokerSettings(sasl=True, mechanisms=("SCRAM-SHA-256",))
    with running_http(tmp_path / "data", settings=settings, is_local=is_local) as served:
        served.broker.users.create("ann", PASSWORD)

        answered = as_user(served, "ann").ask("GET", "/v1/topics")

    assert answered.status == status


def test_the_side_port_uses_the_certificate_of_the_broker(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "broker.pem"))
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    tls = tls_context(str(tmp_path / "broker.pem"))

    with running_http(tmp_path / "data", tls=tls, trusted=trusted) as served:
        assert served.put("orders", "over TLS")["places"]
        stranger = Http(served.running, served.port, ssl.create_default_context())
        with pytest.raises(ssl.SSLError):
            stranger.ask("GET", "/healthz")
        assert served.get("/healthz") == {"is_alive": True}


@pytest.mark.parametrize(
    ("options", "is_open"),
    [
        ({"http.port": 1, "http.host": "0.0.0.0"}, True),
        ({"http.host": "0.0.0.0"}, False),
        ({"http.port": 1}, False),
        ({"http.port": 1, "http.host": "0.0.0.0", "security.sasl": True}, False),
        ({"http.port": 1, "http.host": "0.0.0.0", "broker.insecure": True}, False),
    ],
)
def test_other_machines_are_not_served_unless_allowed(options: dict[str, object], is_open: bool) -> None:
    configuration = read_configuration(None, {}, options)

    if is_open:
        with pytest.raises(OpenToAll):
            check_address(configuration)
    else:
        check_address(configuration)
