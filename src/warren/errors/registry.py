"""Errors of the registry of a cluster, and of the ZooKeeper server that Warren runs."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors.root import BadInput, WarrenError


class RegistryError(WarrenError):
    """An error of the registry, or of one of its servers."""

    code = "registry"


class ClusterMissing(RegistryError):
    """Packages that a cluster needs are not installed. `packages` names them."""

    code = "cluster_missing"

    def __init__(self, packages: Sequence[str]) -> None:
        super().__init__(
            f"a cluster needs packages that are not installed ({', '.join(packages)}): "
            "`pip install 'warren[cluster]'` installs them"
        )
        self.packages = list(packages)


class RegistryUnreached(RegistryError):
    """No server of the registry answered in time. A read has no result, and a write was not sent."""

    code = "registry_unreached"
    retryable = True

    def __init__(self, addresses: str, waited_s: float, reason: str) -> None:
        super().__init__(
            f"no ZooKeeper server of {addresses} answered within {waited_s:.3g} s: {reason}; "
            f"`warren zookeeper --status {addresses}` shows which of them work"
        )
        self.addresses, self.waited_s, self.reason = addresses, waited_s, reason


class RegistryBusy(RegistryError):
    """Too many calls wait for the registry, so no more are accepted. Nothing was sent."""

    code = "registry_busy"
    retryable = True

    def __init__(self, calls_max: int) -> None:
        super().__init__(
            f"{calls_max} calls wait for the registry already, so this call was not sent; "
            "try again when ZooKeeper answers"
        )
        self.calls_max = calls_max


class RegistryClosed(RegistryError):
    """The registry was closed by this process."""

    code = "registry_closed"

    def __init__(self) -> None:
        super().__init__("the registry is closed; connect again")


class RegistryDenied(RegistryError):
    """ZooKeeper does not allow this client to use the node. Nothing was changed."""

    code = "registry_denied"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"ZooKeeper denies the use of {path}: it was created with another secret; use the secret of the cluster"
        )
        self.path = path


class RegistryFailed(RegistryError):
    """ZooKeeper answered with an error for which there is no class. Nothing was changed."""

    code = "registry_failed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"ZooKeeper refuses {path}: {reason}")
        self.path, self.reason = path, reason


class JarsMissing(RegistryError, BadInput):
    """The directory lacks jars that a ZooKeeper server needs. `names` are the patterns of their names."""

    code = "jars_missing"

    def __init__(self, directory: str, names: Sequence[str]) -> None:
        super().__init__(
            f"{directory} has no {', '.join(names)}, which ZooKeeper needs; `pip install 'warren[cluster]'` installs a "
            "PySpark that has all of them, or name another directory with --jars"
        )
        self.directory, self.names = directory, list(names)


class ServerDirectoryInUse(RegistryError, BadInput):
    """The directory belongs to another ZooKeeper server."""

    code = "server_directory_in_use"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory} cannot be used: {reason}")
        self.directory, self.reason = directory, reason


class ServerFailed(RegistryError):
    """The ZooKeeper server does not start, or ends repeatedly. `log` is the file that has the details."""

    code = "server_failed"

    def __init__(self, address: str, reason: str, log: str) -> None:
        super().__init__(f"the ZooKeeper server at {address} {reason}; see {log}")
        self.address, self.reason, self.log = address, reason, log
