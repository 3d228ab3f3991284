"""Connects to a ZooKeeper by its addresses. Every user of a registry connects through this module."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from warren.errors import ClusterMissing
from warren.registry.addresses import parse_addresses
from warren.registry.limits import CALL_S_DEFAULT, SESSION_S_DEFAULT
from warren.registry.registry import checked_wait
from warren.registry.security import TlsFiles

if TYPE_CHECKING:
    from warren.registry.zookeeper import ZooKeeperRegistry

CONNECT_S_DEFAULT: Final = 10.0
PROTECTED: Final = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""The nodes of a new ZooKeeper, which every client may read at first."""


def connect_registry(
    addresses: str,
    *,
    session_s: float = SESSION_S_DEFAULT,
    call_s: float = CALL_S_DEFAULT,
    connect_s: float = CONNECT_S_DEFAULT,
    secret: str | None = None,
    tls: TlsFiles | None = None,
) -> ZooKeeperRegistry:
    """Returns a session at the servers of `addresses`, a comma-separated list such as `a,b:2182`.

    Raises ClusterMissing if kazoo is not installed, and RegistryUnreached if no server answers within `connect_s`.
    """
    parsed = parse_addresses(addresses)
    checked_wait(connect_s, "connect_s")
    require_kazoo()
    # Imported here because only clusters need the package of the extra.
    from warren.registry.zookeeper import ZooKeeperRegistry

    registry = ZooKeeperRegistry(parsed, session_s=session_s, call_s=call_s, secret=secret, tls=tls)
    try:
        registry.wait_until_connected(connect_s)
    except BaseException:
        registry.close()
        raise
    return registry


def require_kazoo() -> None:
    """Raises ClusterMissing if kazoo is not installed."""
    if find_spec("kazoo") is None:
        raise ClusterMissing(["kazoo"])


def protect_root(addresses: str, secret: str, tls: TlsFiles | None) -> None:
    """Denies the root of the tree, and ZooKeeper's own nodes, to every client without the secret.

    The servers must know the digest of the secret. Safe to repeat.
    """
    registry = connect_registry(addresses, secret=secret, tls=tls)
    try:
        for path in PROTECTED:
            registry.protect(path)
    finally:
        registry.close()
