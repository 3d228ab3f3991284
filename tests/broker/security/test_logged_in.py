"""Connections of removed users are closed, and a client cannot find out which users exist."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from warren.broker.security import logged_in
from warren.broker.security.logged_in import LoggedIn
from warren.broker.security.scram import HASHES, SCRAM_ITERATIONS, Credential
from warren.broker.security.users import PLAIN_CHECKED_WITH, KeptPassword, Users
from warren.broker.settings import BrokerSettings
from warren.protocol.api_keys import ApiKey

PASSWORD = "the password"
BEFORE = 8192
"""The number of iterations of passwords that the first brokers stored."""


@pytest.fixture
def quick_passwords() -> None:
    """Passwords have as many iterations here as in production."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Http]:
    with running_http(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        for user in ("ann", "bob"):
            running.broker.users.create(user, PASSWORD)
        yield running


def delete(users: Users) -> None:
    users.delete("ann")


def change_password(users: Users) -> None:
    users.create("ann", "another password", replaces=True)


def make_another(users: Users) -> None:
    users.create("eve", PASSWORD)


def is_closed(caller: Caller) -> bool:
    try:
        return caller._socket.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("change", [delete, change_password])
def test_a_removed_user_or_one_with_a_new_password_is_disconnected_and_others_are_not(
    served: Http, change: Callable[[Users], None]
) -> None:
    with Caller(served.running) as ann, Caller(served.running) as bob:
        logins = ann.login("ann", PASSWORD), bob.login("bob", PASSWORD)
        change(served.broker.users)

        assert logins == (0, 0)
        assert is_closed(ann)
        assert bob.call(ApiKey.METADATA, 12, {"topics": []}).topics == []


def test_an_http_connection_of_a_removed_user_is_closed(served: Http) -> None:
    served.login = "ann", PASSWORD
    connection = served.connection()
    connection.request("GET", "/v1/topics", headers={"Authorization": "Basic YW5uOnRoZSBwYXNzd29yZA=="})
    answered = connection.getresponse()
    answered.read()
    delete(served.broker.users)

    assert answered.status == 200
    assert connection.sock is not None
    assert connection.sock.recv(1) == b""
    assert served.ask("GET", "/v1/topics").status == 401
    connection.close()


def test_a_new_user_disconnects_no_one(served: Http) -> None:
    with Caller(served.running) as ann:
        ann.login("ann", PASSWORD)
        make_another(served.broker.users)
        with Caller(served.running) as eve:
            eve.login("eve", PASSWORD)
            delete(served.broker.users)

            assert is_closed(ann)
            assert eve.call(ApiKey.METADATA, 12, {"topics": []}).topics == []


def test_a_login_with_a_password_that_was_changed_in_between_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_in, "USERS_LOOK_S", 0.0)
    users = Users(str(tmp_path))
    users.create("ann", PASSWORD)

    async def run() -> None:
        connections, closed = LoggedIn(users), asyncio.Event()
        watching = asyncio.create_task(connections.watch())
        password = users.proven("ann", PASSWORD)
        assert password is not None
        connections.add("a", password, lambda: pytest.fail("this one has the password"))
        while connections._has_new:
            await asyncio.sleep(0)
        # The file was read, and is not changed after this.
        connections.add("b", KeptPassword("ann", PLAIN_CHECKED_WITH, b"the salt of before"), closed.set)
        async with asyncio.timeout(30):
            await closed.wait()
        watching.cancel()

    asyncio.run(run())


# --- Iterations ---


def made_before(path: Path, *names: str) -> Users:
    """Users whose passwords were stored by a broker with fewer iterations."""
    users = Users(str(path))
    users.create("new", PASSWORD)
    file = path / "users.json"
    data = json.loads(file.read_text())
    old = {mechanism: Credential.of(mechanism, PASSWORD, bytes(16), BEFORE).to_json() for mechanism in HASHES}
    data["users"] |= dict.fromkeys(names, old)
    file.write_text(json.dumps(data))
    return users


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_new_password_has_many_iterations_and_an_old_one_keeps_its_number(tmp_path: Path, mechanism: str) -> None:
    users = made_before(tmp_path, "old")

    assert users.credential("new", mechanism).iterations == SCRAM_ITERATIONS == 100_000
    assert users.credential("old", mechanism).iterations == BEFORE
    assert users.proven("old", PASSWORD)
    assert users.proven("new", PASSWORD)
    assert not users.proven("old", "another password")


@pytest.mark.parametrize("mechanism", HASHES)
def test_unknown_users_have_iterations_like_known_ones(tmp_path: Path, mechanism: str) -> None:
    users, again = made_before(tmp_path, "a", "b", "c"), Users(str(tmp_path))
    names = [f"unknown{number}" for number in range(400)]

    iterations = {name: users.credential(name, mechanism).iterations for name in names}

    counts = Counter(iterations.values())
    assert set(counts) == {BEFORE, SCRAM_ITERATIONS}
    assert 0.6 < counts[BEFORE] / len(names) < 0.9
    assert iterations == {name: again.credential(name, mechanism).iterations for name in names}


def test_one_more_user_changes_the_iterations_of_few_unknown_users(tmp_path: Path) -> None:
    users = made_before(tmp_path, *(f"u{number}" for number in range(10)))
    names = [f"unknown{number}" for number in range(300)]
    before = [users.credential(name, "SCRAM-SHA-256").iterations for name in names]

    users.create("one more", PASSWORD)
    after = [users.credential(name, "SCRAM-SHA-256").iterations for name in names]

    assert sum(one != other for one, other in zip(before, after, strict=True)) < 60


def test_without_users_every_name_has_the_iterations_of_new_users(tmp_path: Path) -> None:
    assert Users(str(tmp_path)).credential("unknown", "SCRAM-SHA-256").iterations == SCRAM_ITERATIONS
