"""Errors over HTTP: a status, and a problem document (RFC 9457) with the code of the error and `retryable`."""

from __future__ import annotations

import http
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.errors import (
    AuthenticationFailed,
    BadInput,
    CorruptRecord,
    IsAQueue,
    LeaseLost,
    LimitReached,
    NoRight,
    NoSuchGroup,
    NoSuchHandle,
    NoSuchMessage,
    NoSuchPage,
    NoSuchPartition,
    NoSuchTopic,
    NotAcceptedKind,
    NotMaster,
    NumberRetired,
    QuotaExceeded,
    SettingsDiffer,
    Stopping,
    StorageFull,
    StoreBusy,
    TooLarge,
    TooLargeForHttp,
    TooMany,
    TooManyLogins,
    TopicExists,
    WarrenError,
    WrongMethod,
    WrongPlace,
)
from warren.gateway.http.types import HttpReply

PROBLEM: Final = "application/problem+json"
CHALLENGE: Final[Mapping[str, str]] = MappingProxyType({"WWW-Authenticate": 'Basic realm="warren", charset="UTF-8"'})

STATUSES: Final[Mapping[type[WarrenError], int]] = MappingProxyType(
    {
        NoSuchPage: 404,
        NoSuchTopic: 404,
        NoSuchGroup: 404,
        NoSuchPartition: 404,
        NoSuchMessage: 404,
        NoSuchHandle: 404,
        NumberRetired: 410,
        WrongMethod: 405,
        NotAcceptedKind: 415,
        TooLarge: 413,
        SettingsDiffer: 409,
        TopicExists: 409,
        IsAQueue: 409,
        LeaseLost: 409,
        AuthenticationFailed: 401,
        NoRight: 403,
        WrongPlace: 403,
        TooManyLogins: 429,
        QuotaExceeded: 429,
        LimitReached: 403,
        TooMany: 503,
        NotMaster: 503,
        Stopping: 503,
        StoreBusy: 503,
        StorageFull: 507,
        CorruptRecord: 500,
        BadInput: 400,
        WarrenError: 500,
    }
)
"""The status of each error class. A class that is not listed has the status of its nearest base class."""


def status_of(error: WarrenError) -> int:
    """Returns the status of an error."""
    if isinstance(error, NotMaster) and error.location:
        # The client repeats the same request there. It is safe, because this replica has done nothing.
        return http.HTTPStatus.TEMPORARY_REDIRECT
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem(error: WarrenError, detail: str) -> HttpReply:
    """Returns the reply for an error, with `detail` as its sentence."""
    headers: dict[str, str] = {}
    if isinstance(error, AuthenticationFailed):
        headers |= CHALLENGE
    if isinstance(error, WrongMethod):
        headers["Allow"] = ", ".join(error.allowed)
    if isinstance(error, NotMaster) and error.location:
        headers["Location"] = error.location
    elif error.retryable:
        wait_s = error.wait_s if isinstance(error, QuotaExceeded) else 1.0
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    # Let a client reject the message, or find the master, without parsing the sentence.
    facts: dict[str, int | str] = {}
    if isinstance(error, TooLargeForHttp):
        facts = {"partition": error.partition, "number": error.number}
    elif isinstance(error, NotMaster):
        facts = {"epoch": error.epoch, **({"master": error.address} if error.address else {})}
    return _problem(status_of(error), error.code, detail, headers, is_retryable=error.retryable, **facts)


def malformed(status: int, sentence: str) -> HttpReply:
    """Returns the reply to bytes that are not an HTTP request."""
    return _problem(status, "malformed_http", sentence, {}, is_retryable=False)


def failure() -> HttpReply:
    """Returns the reply for an unexpected exception. The log has its traceback."""
    return _problem(500, WarrenError.code, "the broker could not answer this request", {}, is_retryable=False)


def _problem(
    status: int, code: str, detail: str, headers: Mapping[str, str], *, is_retryable: bool, **facts: int | str
) -> HttpReply:
    document = {
        "type": f"urn:warren:error:{code}",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "retryable": is_retryable,
        **facts,
    }
    return HttpReply(status=status, body=json.dumps(document).encode() + b"\n", kind=PROBLEM, headers=headers)
