"""Errors: one tree, facts as attributes, and a sentence that says what to do."""

from __future__ import annotations

import pytest

from warren import errors
from warren.errors import (
    BadInput,
    CorruptRecord,
    LogClosed,
    LogLocked,
    MalformedFilter,
    NotALog,
    NumberRetired,
    StorageError,
    StorageFull,
    SyncFailed,
    TooLarge,
    UnknownVersion,
    UnsupportedByVersion,
    WarrenError,
)

EVERY = [
    (
        TooLarge("body", 11, 10),
        "body of 11 bytes is over the limit of 10 bytes",
        {"what": "body", "size": 11, "size_max": 10},
    ),
    (MalformedFilter("a..b", "a level is empty"), "tag filter 'a..b': a level is empty", {"text": "a..b"}),
    (
        UnsupportedByVersion("a key", 1),
        "a key: not supported by a log of format version 1; use version 2",
        {"version": 1},
    ),
    (NotALog("/x", "it is a file"), "/x is not a log: it is a file", {"path": "/x", "reason": "it is a file"}),
    (UnknownVersion("/x", 9), "/x has format version 9; this release reads versions 1 and 2", {"version": 9}),
    (
        CorruptRecord("/x", 7, "no sense"),
        "/x is damaged at byte 7: no sense; `warren log verify` shows the details",
        {"path": "/x", "position": 7, "reason": "no sense"},
    ),
    (NumberRetired(3, 8), "message 3 was retired; the log now starts at 8", {"number": 3, "first": 8}),
    (LogLocked("/x", 42), "/x is locked for writing by process 42", {"path": "/x", "pid": 42}),
    (LogLocked("/x", 0), "/x is locked for writing by another process", {"pid": 0}),
    (LogClosed("/x", "close() was called"), "/x is closed: close() was called", {"reason": "close() was called"}),
    (StorageFull("/x", 5), "no room on the disk for 5 bytes in /x; free some space and try again", {"size": 5}),
    (
        SyncFailed("/x", "EIO"),
        "/x could not be synced (EIO); the log is closed for writing until it is reopened",
        {"path": "/x", "reason": "EIO"},
    ),
]


@pytest.mark.parametrize(("error", "sentence", "facts"), EVERY, ids=[type(error).__name__ for error, _, _ in EVERY])
def test_an_error_has_advice_and_facts(error: WarrenError, sentence: str, facts: dict[str, object]) -> None:
    assert str(error) == sentence
    assert {name: getattr(error, name) for name in facts} == facts


def test_a_mistake_of_the_caller_is_a_value_error() -> None:
    for kind in (BadInput, TooLarge, MalformedFilter, UnsupportedByVersion):
        assert issubclass(kind, ValueError)
        assert not issubclass(kind, StorageError)


def test_every_error_has_its_own_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WarrenError)]

    codes = [kind.code for kind in kinds]

    assert len(set(codes)) == len(codes) >= 14


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [(LogLocked, True), (StorageFull, True), (SyncFailed, False), (CorruptRecord, False), (BadInput, False)],
)
def test_an_error_says_whether_trying_again_may_help(kind: type[WarrenError], retryable: bool) -> None:
    assert kind.retryable is retryable
