"""HTTP as such: malformed, too large, cross-site and untimely requests are refused and do no harm."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.http import Http, running_http, until
from tests.support.broker.process import run_warren, served_store
from tests.support.broker.running import HOST, PATIENCE_S
from warren.broker.settings import BrokerLimits
from warren.gateway.http.connection import HTTP_HEAD_SIZE_MAX
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX
from warren.gateway.server import HTTP_CONNECTIONS_MAX, HTTP_SPARE_CONNECTIONS_MAX

MESSAGES = "/v1/topics/orders/messages"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with running_http(tmp_path_factory.mktemp("wire") / "data") as server:
        server.put("orders", "first")
        yield server


def raw(served: Http, data: bytes) -> bytes:
    """Returns all bytes that come back for some bytes, until the other side closes."""
    with socket.create_connection((HOST, served.port), PATIENCE_S) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(65_536):
            answer += part
        return answer


def count(served: Http) -> int:
    return int(served.get(MESSAGES)["partitions"][0]["end"])


def test_health_reports_alive_and_ready(served: Http) -> None:
    assert served.get("/healthz") == {"is_alive": True}
    assert served.get("/readyz") == {"is_ready": True, "reason": ""}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"messages": [{"body": NaN}]}',
        b'{"messages": [{"body": "\\ud800"}]}',
        b'{"messages": []}',
        b'{"messages": {}}',
        b'{"messages": [{}]}',
        b'{"messages": [{"body": 1}]}',
        b'{"messages": [{"body": {"base64": "a"}}]}',
        b'{"messages": [{"body": {"base64": "YQ==", "more": 1}}]}',
        b'{"messages": [{"body": "a"}], "delay_s": 1e400}',
        b'{"messages": [{"body": "a"}], "partition": 0.5}',
        b'{"messages": [{"body": "a", "tag": "' + b"t" * 129 + b'"}]}',
        b"[1]",
        b"9" * 5000,
    ],
)
def test_a_malformed_put_is_refused_and_puts_nothing(served: Http, body: bytes) -> None:
    before = count(served)

    answered = served.ask("POST", MESSAGES, body)

    assert answered.problem == (400, "bad_input")
    assert not answered.document["retryable"]
    assert count(served) == before


def test_an_unknown_field_is_named_with_the_most_similar_one(served: Http) -> None:
    answered = served.ask("POST", MESSAGES, {"messages": [{"body": "a", "keey": "b"}]})

    assert "there is no field 'keey'; did you mean 'key'?" in answered.document["detail"]


def test_one_invalid_message_refuses_the_whole_put(served: Http) -> None:
    before = count(served)

    answered = served.ask("POST", MESSAGES, {"messages": [{"body": "good"}, {"body": "bad", "id": "i" * 41}]})

    assert answered.problem == (400, "bad_input")
    assert count(served) == before


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v2", 404, "no_such_page"),
        ("/v1/topics/none", 404, "no_such_topic"),
        ("/v1/topics/none/messages", 404, "no_such_topic"),
        ("/v1/topics/..%2F..%2Fetc/messages", 400, "bad_input"),
        ("/v1/topics/.hidden", 400, "bad_input"),
        ("/v1/topics/%ff", 400, "bad_input"),
        ("/v1/topics/orders/../../healthz", 404, "no_such_page"),
        (f"{MESSAGES}/0/1000000", 404, "no_such_message"),
        (f"{MESSAGES}/7/0", 404, "no_such_partition"),
        (f"{MESSAGES}?partition=7", 404, "no_such_partition"),
        (f"{MESSAGES}?limit=0", 400, "bad_input"),
        (f"{MESSAGES}?limit=1&limit=2", 400, "bad_input"),
        (f"{MESSAGES}?lmit=1", 400, "bad_input"),
        (f"{MESSAGES}?since=yesterday", 400, "bad_input"),
        (f"{MESSAGES}?tag=a..b%23", 400, "malformed_filter"),
        (f"{MESSAGES}?wait_s=nan", 400, "bad_input"),
        ("/v1/topics/orders/groups/none", 404, "no_such_group"),
    ],
)
def test_missing_resources_and_bad_values_are_errors(served: Http, path: str, status: int, code: str) -> None:
    assert served.ask("GET", path).problem == (status, code)


def test_another_method_is_refused_with_those_that_are_served(served: Http) -> None:
    answered = served.ask("PUT", MESSAGES, {})

    assert answered.problem == (405, "wrong_method")
    assert answered.headers["Allow"] == "GET, POST, HEAD"


def test_a_head_request_gets_no_body(served: Http) -> None:
    answered = served.ask("HEAD", "/healthz")

    assert (answered.status, answered.data) == (200, b"")
    assert int(answered.headers["Content-Length"]) > 0


def test_a_body_of_another_kind_is_refused(served: Http) -> None:
    answered = served.ask("POST", MESSAGES, b'{"messages": [{"body": "a"}]}', Content_Type="text/plain")

    assert answered.problem == (415, "not_accepted_kind")


def test_a_body_that_is_too_large_is_refused_before_it_is_read(served: Http) -> None:
    head = f"POST {MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    answer = raw(served, f"{head}Content-Length: {HTTP_BODY_SIZE_MAX + 1}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"too_large"' in answer


def test_a_body_without_a_declared_size_is_read_up_to_the_limit(served: Http) -> None:
    connection = served.connection()
    block = b'{"messages": [{"body": "' + b"a" * (1 << 20)

    connection.putrequest("POST", MESSAGES)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    for _ in range((HTTP_BODY_SIZE_MAX >> 20) + 1):
        connection.send(b"%x\r\n%s\r\n" % (len(block), block))
    status = connection.getresponse().status
    connection.close()

    assert status == 413
    assert served.get("/healthz")["is_alive"]
    assert served.broker.budget.size < HTTP_BODY_SIZE_MAX


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x01",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * HTTP_HEAD_SIZE_MAX + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused_and_the_next_client_is_served(served: Http, data: bytes) -> None:
    answer = raw(served, data)

    assert answer.split(b" ", 2)[1] in (b"400", b"431")
    assert served.get("/healthz")["is_alive"]


def test_a_connection_is_used_again(served: Http) -> None:
    connection = served.connection()

    answers = []
    for _ in range(3):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        response.read()
        answers.append((response.status, connection.sock is not None))
    connection.close()

    assert answers == [(200, True)] * 3


def test_expect_100_continue_is_answered(served: Http) -> None:
    body = json.dumps({"messages": [{"body": "after 100"}]}).encode()
    head = f"POST {MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection((HOST, served.port), PATIENCE_S) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        first = client.recv(1000)
        client.sendall(body)
        answer = client.recv(65_536)

    assert first.startswith(b"HTTP/1.1 100 ")
    assert answer.startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80", "Origin": "http://evil.example:80"}, 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Host": "[::1]:1"}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(served: Http, headers: dict[str, str], status: int) -> None:
    assert served.ask("GET", "/v1/topics", **headers).status == status


def opened(served: Http, count: int, sent: bytes) -> list[socket.socket]:
    """Opens connections and sends the same bytes on each."""
    clients = []
    for _ in range(count):
        clients.append(socket.create_connection((HOST, served.port), PATIENCE_S))
        clients[-1].sendall(sent)
    return clients


def is_closed(client: socket.socket) -> bool:
    """Returns whether the other side has closed the connection without sending a byte."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_half_sent_requests_on_all_connections_do_not_lock_others_out(served: Http) -> None:
    half = opened(served, HTTP_CONNECTIONS_MAX, b"GET /healthz HTTP/1.1\r\nX: ")
    dropped = served.broker.metrics.connections_dropped
    try:
        answers = [served.ask("GET", path).status for path in ("/healthz", "/readyz", "/metrics", MESSAGES)]

        assert answers == [200, 200, 200, 200]
        assert is_closed(half[0])
        assert served.broker.metrics.connections_dropped > dropped
    finally:
        for each in half:
            each.close()


def test_connections_that_are_idle_after_a_request_make_room(served: Http) -> None:
    idle = opened(served, HTTP_CONNECTIONS_MAX, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try:
        assert all(each.recv(1000).startswith(b"HTTP/1.1 200 ") for each in idle)

        assert served.ask("GET", MESSAGES).status == 200
    finally:
        for each in idle:
            each.close()


def test_health_and_metrics_are_answered_while_requests_under_way_take_all_places(served: Http) -> None:
    last = served.put("orders", "last")["places"][0]["number"]
    request = f"GET {MESSAGES}?number={last + 1}&wait_s=20 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    waiting = opened(served, HTTP_CONNECTIONS_MAX, request)
    try:
        until(lambda: served.broker.long_polls.parked_count == HTTP_CONNECTIONS_MAX)
        silent = opened(served, 2 * HTTP_SPARE_CONNECTIONS_MAX, b"GET ")
        waiting += silent

        answers = [served.ask("GET", path).status for path in ("/healthz", "/readyz", "/metrics")]
        other = served.ask("GET", MESSAGES)

        assert answers == [200, 200, 200]
        assert other.problem == (503, "too_many")
        assert other.headers["Connection"] == "close"
        assert served.broker.long_polls.parked_count == HTTP_CONNECTIONS_MAX
        assert is_closed(silent[0])
    finally:
        for each in waiting:
            each.close()
        # Ends the waits, which would otherwise last for their whole time.
        served.broker.store.topic("orders").put(b"next")
        until(lambda: served.broker.long_polls.parked_count == 0)


def test_the_head_of_a_request_has_a_time_limit_on_a_new_and_on_an_idle_connection(
    served: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.gateway.http.connection.HTTP_HEAD_S_MAX", 0.05)
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((HOST, served.port), PATIENCE_S) as silent:
        assert is_closed(silent)

    client = served.connection()
    client.request("GET", "/healthz")
    first = client.getresponse().read()
    assert client.sock is not None
    client.sock.sendall(whole[:9])
    assert first
    assert is_closed(client.sock)
    client.close()


def test_an_address_at_its_limit_of_connections_still_gets_health_over_http(tmp_path: Path) -> None:
    with running_http(tmp_path / "data", limits=BrokerLimits(connections_max_of_address=(f"{HOST}=2",))) as served:
        served.put("orders", "first")
        request = f"GET {MESSAGES}?number=1&wait_s=20 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        waiting = opened(served, 2, request)
        until(lambda: served.broker.long_polls.parked_count == 2)

        assert served.ask("GET", "/readyz").status == 200
        assert f"2 connections over HTTP from {HOST}" in served.ask("GET", "/v1/topics").document["detail"]
        for each in waiting:
            each.close()


def test_while_it_stops_new_requests_get_503_and_accepted_ones_are_answered(tmp_path: Path) -> None:
    waiting: list[int] = []
    with running_http(tmp_path / "data") as served:
        served.put("orders", "first")
        connection = served.connection()
        connection.request("GET", "/readyz")
        assert connection.getresponse().read() == b'{"is_ready": true, "reason": ""}\n'

        def wait() -> None:
            waiting.append(served.ask("GET", f"{MESSAGES}?number=1&wait_s=20").status)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: served.broker.long_polls.parked_count == 1)
        answers: list[tuple[int, bytes]] = []
        served.running.loop.call_soon_threadsafe(served.broker.stop)
        for path in ("/readyz", "/healthz", MESSAGES):
            connection.request("GET", path)
            response = connection.getresponse()
            answers.append((response.status, response.read()))
        thread.join(PATIENCE_S)

    assert [status for status, _ in answers] == [503, 200, 503]
    assert b"stopping" in answers[0][1]
    assert json.loads(answers[2][1])["retryable"]
    assert waiting == [200]
    with pytest.raises(OSError, match="refused"):
        served.ask("GET", "/healthz")
    connection.close()


def test_errors_of_the_store_are_reported_without_paths(tmp_path: Path) -> None:
    with running_http(tmp_path / "data") as served:
        (tmp_path / "data" / "topics").rename(tmp_path / "elsewhere")

        answered = served.ask("GET", "/v1/topics")

        (tmp_path / "elsewhere").rename(tmp_path / "data" / "topics")
        assert served.get("/v1/topics") == {"topics": []}
    assert answered.problem == (500, "error")
    assert str(tmp_path) not in answered.data.decode()


def test_the_side_port_starts_and_ends_with_the_command(tmp_path: Path) -> None:
    with served_store(tmp_path / "data", "--http-port", "0") as broker:
        assert broker.process.stderr is not None
        line = json.loads(broker.process.stderr.readline())["message"]
        connection = http.client.HTTPConnection(line.removeprefix("HTTP on "), timeout=PATIENCE_S)
        connection.request("GET", "/readyz")
        ready = connection.getresponse().read()

        code = broker.end(signal.SIGTERM)
        connection.close()

    assert ready == b'{"is_ready": true, "reason": ""}\n'
    assert code == 0


def test_a_port_in_use_is_reported_and_nothing_is_served(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]

        done = run_warren("serve", "data", "--port", "0", "--http-port", str(port), folder=tmp_path)

    assert done.returncode == 1
    assert f"cannot listen on {HOST}:{port}" in done.stderr
