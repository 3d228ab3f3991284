"""The contract of a registry: input that it refuses before anything is sent."""

from __future__ import annotations

import pytest

from warren.errors import BadInput, TooLarge
from warren.registry.registry import (
    CALL_S_MAX,
    CHANGE_SIZE,
    CHANGES_MAX,
    DONE,
    PATH_SIZE_MAX,
    UNKNOWN,
    WRITE_SIZE_MAX,
    Change,
    Check,
    Create,
    Delete,
    Reason,
    Set,
    checked_changes,
    checked_path,
    checked_wait,
    parent_of,
    refused,
)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c", "/a/...", "/größe/a b", "/" + "a" * (PATH_SIZE_MAX - 1)])
def test_a_path_that_zookeeper_takes_is_accepted(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a\0", "/a\n", "/a\x7f", "/\ue000", "/\uffff", "/\ud800"],
)
def test_a_path_that_zookeeper_refuses_is_bad_input(path: str) -> None:
    with pytest.raises(BadInput, match="path"):
        checked_path(path)


def test_a_path_is_at_most_so_long() -> None:
    with pytest.raises(TooLarge):
        checked_path("/" + "a" * PATH_SIZE_MAX)


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [Check("/a")] * (CHANGES_MAX + 1),
        [Create("a")],
        [Create("/")],
        [Delete("/")],
        [Set("/a", b"", -2)],
        [Check("/a", 1 << 31)],
        [Create("/a", "text")],  # type: ignore[arg-type]
    ],
)
def test_changes_that_cannot_be_sent_are_bad_input(changes: list[Change]) -> None:
    with pytest.raises(BadInput):
        checked_changes(changes)


def test_a_write_is_at_most_as_large_as_a_request_to_zookeeper() -> None:
    size = WRITE_SIZE_MAX - CHANGE_SIZE - len("/a")
    assert checked_changes([Set("/a", bytes(size))])

    with pytest.raises(TooLarge):
        checked_changes([Set("/a", bytes(size + 1))])
    with pytest.raises(TooLarge):
        checked_changes([Set("/a", bytes(size // 2)), Set("/b", bytes(size // 2))])


@pytest.mark.parametrize("within_s", [0, -1, CALL_S_MAX + 1, float("nan")])
def test_a_call_takes_a_positive_time_that_is_not_too_long(within_s: float) -> None:
    with pytest.raises(BadInput):
        checked_wait(within_s)


def test_an_outcome_is_exactly_one_of_three() -> None:
    outcomes = [DONE, UNKNOWN, refused(1, Reason.VERSION)]

    assert [(each.is_done, each.is_unknown, each.is_refused) for each in outcomes] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert outcomes[2].change == 1


@pytest.mark.parametrize(("path", "parent"), [("/a", "/"), ("/a/b", "/a")])
def test_the_parent_of_a_path(path: str, parent: str) -> None:
    assert parent_of(path) == parent
