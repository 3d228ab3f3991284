"""The watches of a registry: armed before they are called, and called again whenever something may have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from tests.support.patience import WAIT_S, until
from warren.errors import BadInput, RegistryUnreached
from warren.registry import watch_table
from warren.registry.watch_table import WatchTable


class Server:
    """Records the armed paths. While it `is_away`, arming fails."""

    def __init__(self) -> None:
        self.armed: list[str] = []
        self.attempts = 0
        self.is_away = False

    def arm(self, paths: Sequence[str]) -> None:
        self.attempts += 1
        if self.is_away:
            raise RegistryUnreached("here", 1.0, "it is away")
        self.armed += paths


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def table(server: Server) -> Iterator[WatchTable]:
    table = WatchTable(server.arm)
    yield table
    table.close()
    table.join(WAIT_S)


def test_a_new_watch_is_armed_and_then_called(table: WatchTable, server: Server) -> None:
    calls: list[list[str]] = []

    table.add("/a", lambda: calls.append(list(server.armed)))

    until(lambda: calls)
    assert calls == [["/a"]]


def test_a_change_arms_again_before_it_calls(table: WatchTable, server: Server) -> None:
    calls: list[int] = []
    table.add("/a", lambda: calls.append(len(server.armed)))
    until(lambda: len(calls) == 1)

    table.mark("/a")

    until(lambda: len(calls) == 2)
    assert calls == [1, 2]


def test_after_a_reconnection_every_watch_is_called(table: WatchTable) -> None:
    calls: list[str] = []
    for path in ("/a", "/b"):
        table.add(path, lambda path=path: calls.append(path))  # type: ignore[misc]
    until(lambda: len(calls) == 2)

    table.mark_all()

    until(lambda: len(calls) == 4)
    assert sorted(calls) == ["/a", "/a", "/b", "/b"]


def test_a_watch_that_cannot_be_armed_is_called_after_the_next_connection(table: WatchTable, server: Server) -> None:
    server.is_away = True
    calls: list[str] = []
    table.add("/a", lambda: calls.append("a"))
    until(lambda: server.attempts)
    assert calls == []

    server.is_away = False
    table.mark_all()

    until(lambda: calls)


def test_a_watch_that_cannot_be_armed_is_tried_again_without_a_reconnection(
    table: WatchTable, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_table, "RETRY_S", 0.01)
    server.is_away = True
    calls: list[str] = []
    table.add("/a", lambda: calls.append("a"))
    until(lambda: server.attempts >= 2)

    server.is_away = False

    until(lambda: calls)


def test_marks_that_come_while_a_callback_runs_become_one_call(table: WatchTable) -> None:
    entered, released = threading.Event(), threading.Event()
    calls: list[str] = []

    def callback() -> None:
        calls.append("a")
        entered.set()
        assert released.wait(WAIT_S)

    table.add("/a", callback)
    assert entered.wait(WAIT_S)
    for _ in range(10):
        table.mark("/a")
    released.set()

    until(lambda: len(calls) == 2)
    table.add("/end", lambda: calls.append("end"))
    until(lambda: "end" in calls)
    assert calls == ["a", "a", "end"]


def test_a_failing_callback_harms_no_other(table: WatchTable, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def fail() -> None:
        raise ValueError("a mistake")

    table.add("/a", fail)
    table.add("/a", lambda: calls.append("a"))

    until(lambda: calls)
    assert "the callback of a watch on /a failed" in caplog.text


def test_a_removed_watch_is_not_called_and_marks_of_others_are_ignored(table: WatchTable, server: Server) -> None:
    calls: list[str] = []

    def callback() -> None:
        calls.append("a")

    table.add("/a", callback)
    until(lambda: calls)
    assert table.remove("/a", callback) is False
    assert table.remove("/a", callback) is False

    table.mark("/a")
    table.mark("/unknown")
    table.add("/end", lambda: calls.append("end"))

    until(lambda: "end" in calls)
    assert calls == ["a", "end"]
    assert server.armed == ["/a", "/end"]


def test_more_watches_than_the_limit_are_refused(table: WatchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_table, "WATCHES_MAX", 1)
    table.add("/a", print)

    with pytest.raises(BadInput, match="may have 1 watches"):
        table.add("/b", print)


def test_a_callback_may_close_the_table(server: Server) -> None:
    table = WatchTable(server.arm)
    closed = threading.Event()

    def callback() -> None:
        table.close()
        table.join(WAIT_S)
        closed.set()

    table.add("/a", callback)

    assert closed.wait(WAIT_S)
