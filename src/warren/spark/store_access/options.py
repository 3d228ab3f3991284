"""The options that say which store a query reads or writes: a directory, or the broker that serves one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlparse

from warren import api
from warren.broker.security.users import PASSWORD_SIZE_MAX
from warren.client.net.connection import parse_address
from warren.client.net.rack_reads import RACK_SIZE_MAX
from warren.client.net.session import CLIENT_TIMEOUT_S_DEFAULT
from warren.errors import BadInput, BadOption
from warren.limits import WAIT_S_MAX
from warren.settings import Flag, Seconds, Setting, Text
from warren.spark.store_access.access import StoreAccess
from warren.spark.store_access.raw_options import RawOptions, option_table

STORE_OPTIONS: Final = option_table(
    [
        Setting("path", Text(), None, "the directory of the store; the argument of `load`, `save` or `start`"),
        Setting(
            "servers",
            Text(),
            None,
            "instead: the broker that serves the store, as `host:9092`, or some brokers of a cluster, as "
            "`a:9092,b:9092`. If neither is set, `kafka.bootstrap.servers` is used",
        ),
        Setting(
            "rack",
            Text(),
            None,
            "with `servers`: where Spark runs; messages are read from a slave with this `cluster.rack` if there is one",
        ),
        Setting("user", Text(), None, "with `servers`: the user that connects"),
        Setting("password", Text(), None, "with `servers`: the password of the user"),
        Setting("passwordFile", Text(), None, "instead: a file that holds the password; only the driver reads it"),
        Setting("tls", Flag(), False, "with `servers`: `true` connects with TLS"),
        Setting(
            "tlsCa",
            Text(),
            None,
            "with `servers`: TLS, and the certificates to trust, as a file on every machine",
        ),
        Setting(
            "timeout",
            Seconds(0, WAIT_S_MAX, is_above=True),
            CLIENT_TIMEOUT_S_DEFAULT,
            "with `servers`: how many seconds the broker may take to answer; 30 by default",
        ),
    ]
)
BROKER_OPTIONS: Final = STORE_OPTIONS.without("path", "servers")
KAFKAS_SERVERS: Final = "kafka.bootstrap.servers"
"""The option of queries written for Kafka. It is used if neither `path` nor `servers` is set."""


Named = str | Mapping[str, str]
"""A store as an argument of a job: its directory, or the options that name it, such as `servers`."""


def named_options(store: Named) -> dict[str, str]:
    """Returns the options of format "warren" that name a store."""
    return {"path": store} if isinstance(store, str) else dict(store)


@contextmanager
def opened(store: Named) -> Iterator[api.Store]:
    """Opens the store for the driver of a job, and closes it at the end. Raises NotAStore if it does not exist."""
    access = access_of(RawOptions.of(STORE_OPTIONS, named_options(store)))
    # Reading the catalog first raises NotAStore; `store_id` would create the store.
    access.catalog()
    try:
        yield access.store(access.store_id())
    finally:
        access.drop()


def access_of(raw: RawOptions) -> StoreAccess:
    """Returns the access to the store. Raises BadOption if the options name no store, or two."""
    path, servers = raw.text("path"), raw.text("servers")
    if path is not None and servers is not None:
        raise BadOption("servers", "path is also set; set either the directory of the store or its broker")
    if path is None and servers is None:
        servers = raw.text(KAFKAS_SERVERS)
    if servers is not None:
        return _broker(raw, servers)
    unfit = [option for option in BROKER_OPTIONS if raw.text(option) is not None]
    if unfit:
        raise BadOption(unfit[0], "it needs the option servers: access by files has no users and no connections")
    from warren.spark.store_access.files import FileAccess

    return FileAccess(_directory(path))


def _directory(text: str | None) -> str:
    """Returns the directory of the store; `/data` for `file:/data`, as tables of Spark's catalog write it."""
    if text is None:
        # Spark does not pass the options of CREATE TABLE to a reader of the table.
        raise BadOption(
            "path",
            "it is missing: set the store's directory, by option or as in load('data'), or its broker with servers. "
            "In SQL use CREATE TEMPORARY VIEW, or SELECT ... FROM table WITH (path = 'data', topics = 'orders'): Spark "
            "does not pass on the options of CREATE TABLE",
        )
    parsed = urlparse(text)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    if re.match(r"[a-z][a-z0-9+.-]+:/", text, re.IGNORECASE):
        raise BadOption("path", f"{text!r}: a store is a directory of a file system that every worker has mounted")
    return text


def _broker(raw: RawOptions, servers: str) -> StoreAccess:
    try:
        for address in servers.split(","):
            parse_address(address.strip())
    except BadInput as error:
        raise BadOption("servers", str(error)) from None
    rack = raw.text("rack")
    if rack is not None and len(rack) > RACK_SIZE_MAX:
        raise BadOption("rack", f"it has {len(rack)} characters; the limit is {RACK_SIZE_MAX}")
    user, password = raw.text("user"), _password(raw)
    if (user is None) != (password is None):
        missing = "user" if user is None else "password"
        raise BadOption(missing, "it is missing: set user and password (or passwordFile), or neither")
    # Imported here because access by files does not need the network client.
    from warren.spark.store_access.through_broker import BrokerAccess

    return BrokerAccess(
        servers=servers,
        rack=rack,
        user=user,
        password=password,
        is_tls=raw.value("tls"),
        authority=raw.text("tlsCa"),
        timeout_s=raw.value("timeout"),
    )


def _password(raw: RawOptions) -> str | None:
    """Returns the password with any surrounding space. Only the driver reads the file of `passwordFile`."""
    password, file = raw.exact("password"), raw.text("passwordFile")
    if file is None:
        return password
    if password is not None:
        raise BadOption("passwordFile", "password is also set; set only one of them")
    try:
        with open(os.path.expanduser(file), encoding="utf-8") as opened:
            return opened.readline(PASSWORD_SIZE_MAX).rstrip("\r\n") or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadOption("passwordFile", f"{file!r}: {reason}") from None
