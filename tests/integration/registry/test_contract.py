"""The contract of a registry, implemented inside this process and by a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.integration.registry.conftest import Connect
from tests.support.patience import WAIT_S, until
from warren.errors import BadInput, RegistryClosed
from warren.registry.registry import (
    CHANGES_MAX,
    DONE,
    WRITE_SIZE_MAX,
    Change,
    Check,
    Create,
    Delete,
    Reason,
    Registry,
    Set,
    refused,
)


def test_a_node_that_was_created_is_read_by_every_session(registry: Registry, connect: Connect, root: str) -> None:
    assert registry.write([Create(f"{root}/a", b"data")]) == DONE

    node = connect().read(f"{root}/a")
    assert node is not None
    assert (node.data, node.version, node.owner) == (b"data", 0, 0)
    assert node.created > 0
    assert node.modified_ms > 1_700_000_000_000


def test_a_node_that_does_not_exist_is_none_and_has_no_children(registry: Registry, root: str) -> None:
    assert registry.read(f"{root}/none") is None
    assert registry.children(f"{root}/none") == []


def test_children_are_in_order(registry: Registry, root: str) -> None:
    registry.write([Create(f"{root}/{name}") for name in ("b", "a", "10", "9", "ä")])

    assert registry.children(root) == ["10", "9", "a", "b", "ä"]


def test_a_version_grows_with_each_set_and_a_created_node_is_another_one(registry: Registry, root: str) -> None:
    path = f"{root}/a"
    registry.write([Create(path)])
    first = registry.read(path)
    registry.write([Set(path, b"1"), Set(path, b"2", 1)])
    second = registry.read(path)
    registry.write([Delete(path, 2)])
    registry.write([Create(path)])
    third = registry.read(path)

    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.version, second.version, third.version) == (0, 2, 0)
    assert first.created == second.created < third.created


@pytest.mark.parametrize(
    ("changes", "change", "reason"),
    [
        ([Create("/a")], 0, Reason.EXISTS),
        ([Create("/none/x")], 0, Reason.MISSING),
        ([Set("/none", b"")], 0, Reason.MISSING),
        ([Delete("/none")], 0, Reason.MISSING),
        ([Check("/none")], 0, Reason.MISSING),
        ([Set("/a", b"", 1)], 0, Reason.VERSION),
        ([Delete("/a/b", 1)], 0, Reason.VERSION),
        ([Check("/a", 7)], 0, Reason.VERSION),
        ([Delete("/a")], 0, Reason.NOT_EMPTY),
        ([Create("/mine/x")], 0, Reason.EPHEMERAL_PARENT),
        ([Create("/c"), Create("/c/d"), Set("/c", b"1", 0), Check("/c", 0)], 3, Reason.VERSION),
        ([Create("/c"), Create("/a"), Create("/none/x")], 1, Reason.EXISTS),
    ],
)
def test_a_refused_change_is_named_with_its_reason_and_changes_nothing(
    registry: Registry, root: str, changes: Sequence[Change], change: int, reason: Reason
) -> None:
    registry.write([Create(f"{root}/a"), Create(f"{root}/a/b"), Create(f"{root}/mine", b"", True)])
    below = [each._replace(path=root + each.path) for each in changes]

    assert registry.write(below) == refused(change, reason)

    assert registry.children(root) == ["a", "mine"]
    assert registry.children(f"{root}/a") == ["b"]
    node = registry.read(f"{root}/a")
    assert node is not None
    assert node.version == 0


def test_a_later_change_sees_the_effect_of_an_earlier_one(registry: Registry, root: str) -> None:
    path = f"{root}/a"

    outcome = registry.write(
        [Create(path), Check(path, 0), Set(path, b"1", 0), Check(path, 1), Create(f"{path}/b"), Delete(f"{path}/b")]
    )
    again = registry.write([Delete(path), Create(path, b"new")])

    assert outcome == again == DONE
    node = registry.read(path)
    assert node is not None
    assert (node.data, node.version) == (b"new", 0)


def test_one_of_many_simultaneous_compare_and_sets_succeeds(connect: Connect, registry: Registry, root: str) -> None:
    registries = [registry, connect(), connect()]
    outcomes: list[bool] = []

    def claim(each: Registry) -> None:
        outcomes.append(each.write([Set(root, b"", 0)]).is_done)

    threads = [threading.Thread(target=claim, args=[each]) for each in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == [False, False, True]


def test_an_ephemeral_node_goes_with_its_session(connect: Connect, registry: Registry, root: str) -> None:
    other = connect()
    other.write([Create(f"{root}/mine", b"", True)])
    node = registry.read(f"{root}/mine")
    assert node is not None
    assert node.owner == other.session() != registry.session()

    other.close()

    assert registry.read(f"{root}/mine") is None


def test_a_watch_is_called_for_each_kind_of_change(connect: Connect, registry: Registry, root: str) -> None:
    path = f"{root}/a"
    other = connect()
    calls: list[int] = []
    registry.watch(path, lambda: calls.append(1))
    until(lambda: len(calls) >= 1)

    steps: list[Change] = [
        Create(path),
        Set(path, b"1"),
        Create(f"{path}/b"),
        Set(path, b"2"),
        Delete(f"{path}/b"),
        Delete(path),
        Create(path),
    ]
    for change in steps:
        before = len(calls)
        assert other.write([change]).is_done
        until(lambda before=before: len(calls) > before)  # type: ignore[misc]


def test_a_callback_sees_the_change_and_may_use_the_registry(connect: Connect, registry: Registry, root: str) -> None:
    values: list[bytes] = []

    def look() -> None:
        node = registry.read(root)
        assert node is not None
        values.append(node.data)
        if node.data == b"1":
            registry.write([Set(root, b"2", node.version)])

    registry.watch(root, look)
    connect().write([Set(root, b"1")])

    until(lambda: b"2" in values)


def test_an_ended_watch_is_not_called_any_more(registry: Registry, root: str) -> None:
    calls: list[str] = []

    def callback() -> None:
        calls.append("ended")

    registry.watch(root, callback)
    until(lambda: calls)
    registry.unwatch(root, callback)
    registry.watch(root, lambda: calls.append("other"))
    until(lambda: "other" in calls)
    del calls[:]

    registry.write([Set(root, b"")])

    until(lambda: calls)
    assert "ended" not in calls


def test_large_and_many_changes_are_taken_up_to_the_limits(registry: Registry, root: str) -> None:
    size = WRITE_SIZE_MAX - 1024

    assert registry.write([Create(f"{root}/large", bytes(size))], WAIT_S) == DONE
    assert registry.write([Create(f"{root}/{number}") for number in range(CHANGES_MAX)], WAIT_S) == DONE

    node = registry.read(f"{root}/large")
    assert node is not None
    assert len(node.data) == size
    assert len(registry.children(root)) == CHANGES_MAX + 1
    with pytest.raises(BadInput):
        registry.write([Create(f"{root}/larger", bytes(WRITE_SIZE_MAX))])


def test_a_connected_session_has_time_left_and_a_closed_one_has_not(connect: Connect) -> None:
    registry = connect()

    assert registry.is_connected()
    assert registry.session() != 0
    assert registry.remaining_s() > 0
    registry.close()
    assert not registry.is_connected()
    assert registry.remaining_s() == 0
    with pytest.raises(RegistryClosed):
        registry.write([Create("/never")])
