"""The options that say which store a query reads or writes: a directory, or the broker that serves one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlparse

from warren.client.connection import parse_address
from warren.config import CLIENT_TIMEOUT_S_DEFAULT, PASSWORD_SIZE_MAX, WAIT_S_MAX
from warren.errors import BadInput, BadOption
from warren.spark.given import Given
from warren.spark.reach import AnyStore, Reach

BROKER_OPTIONS: Final = ("user", "password", "passwordFile", "tls", "tlsCa", "timeout")
STORE_OPTIONS: Final = ("path", "servers", *BROKER_OPTIONS)
KAFKAS_SERVERS: Final = "kafka.bootstrap.servers"
"""What a query written for Kafka carries: it is meant where neither `path` nor `servers` is given."""


Named = str | Mapping[str, str]
"""A store as jobs take it: its directory, or the options that name it, such as `servers`."""


def named_options(store: Named) -> dict[str, str]:
    """The options of format "warren" that name a store."""
    return {"path": store} if isinstance(store, str) else dict(store)


@contextmanager
def opened(store: Named) -> Iterator[AnyStore]:
    """The store, open for whoever plans a job, and closed behind it."""
    reach = reach_of(Given({name.lower(): value for name, value in named_options(store).items()}, 0))
    # Asked first: what is not there is not made.
    reach.topics()
    try:
        yield reach.store(reach.store_id())
    finally:
        reach.drop()


def reach_of(given: Given) -> Reach:
    """Where the store is; BadOption where that is not said, or said twice."""
    path, servers = given.text("path"), given.text("servers")
    if path is not None and servers is not None:
        raise BadOption("servers", "path is given as well: a store is reached by its files or through its broker")
    if path is None and servers is None:
        servers = given.text(KAFKAS_SERVERS)
    if servers is not None:
        return _broker(given, servers)
    unfit = [option for option in BROKER_OPTIONS if given.text(option) is not None]
    if unfit:
        raise BadOption(unfit[0], "it goes with servers: files have no such thing")
    from warren.spark.file_reach import FileReach

    return FileReach(_directory(path))


def _directory(text: str | None) -> str:
    """The directory of the store; what a table of Spark's catalog calls `file:/data` is `/data`."""
    if text is None:
        # Spark hands the options of CREATE TABLE to nobody who reads the table.
        raise BadOption(
            "path",
            "it is missing: give the store's directory, by option or as in load('data'), or its broker with servers. "
            "In SQL use CREATE TEMPORARY VIEW, or SELECT ... FROM table WITH (path = 'data', topics = 'orders'): Spark "
            "does not pass on the options of CREATE TABLE",
        )
    parsed = urlparse(text)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    if re.match(r"[a-z][a-z0-9+.-]+:/", text, re.IGNORECASE):
        raise BadOption("path", f"{text!r}: a store is a directory of a file system that every worker has mounted")
    return text


def _broker(given: Given, servers: str) -> Reach:
    if "," in servers:
        raise BadOption("servers", f"{servers!r}: a store has one broker; give its address alone, as host:9092")
    try:
        parse_address(servers)
    except BadInput as error:
        raise BadOption("servers", str(error)) from None
    user, password = given.text("user"), _password(given)
    if (user is None) != (password is None):
        missing = "user" if user is None else "password"
        raise BadOption(missing, "it is missing: give user and password (or passwordFile), or neither")
    # Imported here: whoever reads files of their own needs no network.
    from warren.spark.broker_reach import BrokerReach

    return BrokerReach(
        servers=servers,
        user=user,
        password=password,
        is_tls=given.truth("tls", default=False),
        authority=given.text("tlsCa"),
        timeout_s=_seconds(given),
    )


def _password(given: Given) -> str | None:
    """The password, as it is: also the space around it. That of a file is read by the driver alone."""
    password, file = given.options.get("password") or None, given.text("passwordFile")
    if file is None:
        return password
    if password is not None:
        raise BadOption("passwordFile", "password is given at once; give one of them")
    try:
        with open(os.path.expanduser(file), encoding="utf-8") as opened:
            return opened.readline(PASSWORD_SIZE_MAX).rstrip("\r\n") or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadOption("passwordFile", f"{file!r}: {reason}") from None


def _seconds(given: Given) -> float:
    text = given.text("timeout")
    if text is None:
        return CLIENT_TIMEOUT_S_DEFAULT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= WAIT_S_MAX:
        raise BadOption("timeout", f"{text!r}: expected seconds above 0, at most {WAIT_S_MAX:.0f}")
    return seconds
