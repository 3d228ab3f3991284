"""The options of the commands of a cluster: how to reach its ZooKeeper, and how to log in to its brokers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

import typer

from warren.broker.cluster.paths import ROOT_DEFAULT
from warren.cli.options.option_set import OptionSet
from warren.cli.options.store_option import (
    CaOption,
    ClientCertificateOption,
    ClientKeyOption,
    PasswordFileOption,
    TlsOption,
    UserOption,
    password_of,
)
from warren.client.net.connection import Connection
from warren.client.net.first_contact import explained
from warren.errors import ConnectionLost, NotAuthenticated, UserWanted
from warren.protocol.login import Login
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.wire_struct import NativeResponse, WireRequest
from warren.registry.connection import connect_registry
from warren.registry.registry import Registry
from warren.registry.security import TlsFiles, read_secret, tls_files
from warren.tls import tls_context

ANSWER_S: Final = 5.0
"""How long a broker may take to answer."""
AnyAnswer = TypeVar("AnyAnswer", bound=NativeResponse)

Addresses = Annotated[
    str, typer.Argument(metavar="ADDRESSES", help="The servers of ZooKeeper, as in a,b:2182.", show_default=False)
]
RootOption = Annotated[str, typer.Option(metavar="PATH", help="The path in ZooKeeper below which the cluster lies.")]
SecretFile = Annotated[str | None, typer.Option(metavar="FILE", help="The file with the secret of the cluster.")]
Authority = Annotated[str | None, typer.Option("--tls-ca", metavar="FILE", help="TLS to ZooKeeper: who signed it.")]
Certificate = Annotated[str | None, typer.Option("--tls-certificate", metavar="FILE", help="The own certificate.")]
Key = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PKCS #8).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """How a command reaches the ZooKeeper of a cluster. `repr` does not show the secret."""

    root: str
    secret_file: str | None
    tls: TlsFiles | None

    @contextmanager
    def open(self, addresses: str) -> Iterator[Registry]:
        """Opens a session at the servers of `addresses`."""
        secret = None if self.secret_file is None else read_secret(self.secret_file)
        registry = connect_registry(addresses, secret=secret, tls=self.tls)
        try:
            yield registry
        finally:
            registry.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """How a command connects to the brokers of a cluster."""

    login: Login | None
    tls: ssl.SSLContext | None

    def connect(self, address: str) -> Connection:
        """Returns a connection to the broker at `address` that has logged in."""
        try:
            connection = Connection(address, self.tls, ANSWER_S)
            try:
                if self.login is not None:
                    connection.log_in(self.login)
            except BaseException:
                connection.close()
                raise
        except ConnectionLost as error:
            raise explained(error, address, self.tls) from error
        return connection

    def ask(self, address: str, request: WireRequest[AnyAnswer]) -> AnyAnswer:
        """Returns the answer of the broker at `address`. Raises the error in it, and UserWanted without a user."""
        connection = self.connect(address)
        try:
            return checked(connection.call(request, VERSION, ANSWER_S))
        except NotAuthenticated as error:
            raise UserWanted(address) from error
        except ConnectionLost as error:
            raise explained(error, address, self.tls) from error
        finally:
            connection.close()


def _registry_access(
    *, root: str, secret_file: str | None, authority: str | None, certificate: str | None, key: str | None
) -> RegistryAccess:
    return RegistryAccess(root=root, secret_file=secret_file, tls=tls_files(authority, certificate, key))


def _broker_access(
    *,
    user: str | None,
    password_file: str | None,
    is_tls: bool,
    ca: str | None,
    client_certificate: str | None,
    client_key: str | None,
) -> BrokerAccess:
    password = password_of(user, password_file)
    login = None if user is None or password is None else Login(user, password)
    return BrokerAccess(login=login, tls=tls_context(is_tls or None, ca, client_certificate, client_key))


at_registry: Final = OptionSet(
    options={
        "root": (RootOption, ROOT_DEFAULT),
        "secret_file": (SecretFile, None),
        "authority": (Authority, None),
        "certificate": (Certificate, None),
        "key": (Key, None),
    },
    value_of=_registry_access,
    is_last=True,
).as_parameter("zookeeper")
"""Decorates a command: its parameter `zookeeper` says how to reach the registry of the cluster."""

at_brokers: Final = OptionSet(
    options={
        "user": (UserOption, None),
        "password_file": (PasswordFileOption, None),
        "is_tls": (TlsOption, False),
        "ca": (CaOption, None),
        "client_certificate": (ClientCertificateOption, None),
        "client_key": (ClientKeyOption, None),
    },
    value_of=_broker_access,
    is_last=True,
).as_parameter("brokers")
"""Decorates a command: its parameter `brokers` says how to connect to the brokers of the cluster."""
