"""The files in the directory of a ZooKeeper server: its configuration, its identity, its logs.

```
zoo.cfg             the configuration; written at each start, like all files but those in data and log
log4j2.properties   where the server logs, and how much
tls/                its certificate and key in one file, and the authority; only with TLS
server.lock         held by the process that runs the server
data/myid           the number of the server in its ensemble; not in a server that stands alone
data/version-2/     what ZooKeeper stores
log/zookeeper.log   what the server says; a new file at 10 MB, and five old ones
log/java.log        what Java itself says
```
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from warren.errors import BadInput, ServerDirectoryInUse
from warren.registry.addresses import Address, EnsembleMember
from warren.registry.security import TlsFiles

SERVER_ID_MAX: Final = 255

TICK_MS: Final = 500
"""ZooKeeper's unit of time. A session lasts 2 to 20 ticks."""
SETTINGS: Final[Mapping[str, str | int]] = {
    "tickTime": TICK_MS,
    "initLimit": 20,
    "syncLimit": 4,
    "admin.enableServer": "false",
    "autopurge.snapRetainCount": 3,
    "autopurge.purgeInterval": 1,
    "4lw.commands.whitelist": "srvr,mntr",
    # With the default, the servers of an ensemble that start together may need half a minute to find each other.
    "fastleader.maxNotificationInterval": 400,
}
NETTY: Final = "org.apache.zookeeper.server.NettyServerCnxnFactory"
LOG_SETTINGS: Final = """\
status = warn
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}} %-5p %c{{1}} %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 5
"""
PKCS8: Final = "-----BEGIN PRIVATE KEY-----"
"""The first line of a key in the only format that ZooKeeper reads."""
PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One server: where it stores and listens. Without `members` it is standalone; otherwise it is number `id` of them.

    With `super_digest` the holder of the cluster's secret may use every node.
    """

    directory: str
    address: Address
    id: int | None = None
    members: Sequence[EnsembleMember] = ()
    super_digest: str | None = None
    tls: TlsFiles | None = None

    def check(self) -> None:
        """Raises BadInput if the number and the members do not match."""
        if bool(self.members) != (self.id is not None):
            raise BadInput("--id and --servers belong together: a server of an ensemble needs both")
        if self.id is not None and not 1 <= self.id <= min(len(self.members), SERVER_ID_MAX):
            raise BadInput(
                f"--id {self.id}: the ensemble has the servers 1 to {len(self.members)}, in the order of --servers"
            )

    @property
    def own_member(self) -> EnsembleMember | None:
        """Returns this server as a member of its ensemble, or None if it is standalone."""
        return None if self.id is None else self.members[self.id - 1]

    def path(self, *names: str) -> str:
        """Returns the absolute path of a file of the server."""
        return os.path.join(os.path.abspath(self.directory), *names)

    @property
    def log(self) -> str:
        """Returns the log file of the server."""
        return self.path("log", "zookeeper.log")

    @property
    def java_log(self) -> str:
        """Returns the log file of Java."""
        return self.path("log", "java.log")


def configuration(settings: ServerSettings) -> str:
    """Returns the text of zoo.cfg."""
    values: dict[str, str | int] = {**SETTINGS, "dataDir": settings.path("data")}
    if settings.tls is None:
        values |= {"clientPort": settings.address.port, "clientPortAddress": settings.address.host}
    else:
        values |= {"secureClientPort": settings.address.port, "secureClientPortAddress": settings.address.host}
        values |= {"serverCnxnFactory": NETTY, **_tls_values(settings, "ssl")}
        if settings.members:
            values |= {"sslQuorum": "true", **_tls_values(settings, "ssl.quorum")}
    if settings.super_digest is not None:
        values["DigestAuthenticationProvider.superDigest"] = settings.super_digest
    values |= {f"server.{number}": str(member) for number, member in enumerate(settings.members, 1)}
    return "".join(f"{name}={escaped(str(value))}\n" for name, value in values.items())


def escaped(text: str) -> str:
    """Returns a value in the encoding of Java properties files, which are Latin-1."""
    return "".join(
        f"\\u{unit:04x}" if unit > 0x7E or unit < 0x20 else "\\\\" if unit == 0x5C else chr(unit)
        for unit in _utf_16(text)
    )


def write_files(settings: ServerSettings) -> None:
    """Writes the files that the server reads. The caller holds the lock of the directory."""
    for name in ("data", "log"):
        os.makedirs(settings.path(name), mode=0o700, exist_ok=True)
    _write(settings.path("zoo.cfg"), configuration(settings))
    _write(settings.path("log4j2.properties"), LOG_SETTINGS.format(log=escaped(settings.log)))
    if settings.id is not None:
        _write(settings.path("data", "myid"), f"{settings.id}\n")
    if settings.tls is not None:
        os.makedirs(settings.path("tls"), mode=0o700, exist_ok=True)
        _write(settings.path("tls", "server.pem"), _read_key(settings.tls.key) + _read(settings.tls.certificate))
        _write(settings.path("tls", "authority.pem"), _read(settings.tls.authority))


@contextmanager
def directory_lock(settings: ServerSettings) -> Iterator[None]:
    """Creates the directory if it does not exist, and locks out other processes and other servers.

    Raises ServerDirectoryInUse if it belongs to another server, or has other content.
    """
    _check_kind(settings)
    os.makedirs(settings.directory, mode=0o700, exist_ok=True)
    with open(settings.path("server.lock"), "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            reason = f"process {lock.read().strip() or 'unknown'} runs a server in it"
            raise ServerDirectoryInUse(settings.directory, reason) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        _check_identity(settings)
        yield


def _check_kind(settings: ServerSettings) -> None:
    try:
        names = os.listdir(settings.directory)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ServerDirectoryInUse(settings.directory, "it is a file") from None
    if names and "server.lock" not in names:
        raise ServerDirectoryInUse(settings.directory, "it contains other files; name a new directory")


def _check_identity(settings: ServerSettings) -> None:
    try:
        number = _read(settings.path("data", "myid")).strip()
    except FileNotFoundError:
        return
    if number != str(settings.id or ""):
        remedy = f"use --id {number} and --servers, or another directory"
        raise ServerDirectoryInUse(settings.directory, f"it belongs to server {number} of an ensemble; {remedy}")


def _tls_values(settings: ServerSettings, prefix: str) -> dict[str, str | int]:
    return {
        f"{prefix}.keyStore.location": settings.path("tls", "server.pem"),
        f"{prefix}.keyStore.type": "PEM",
        f"{prefix}.trustStore.location": settings.path("tls", "authority.pem"),
        f"{prefix}.trustStore.type": "PEM",
        f"{prefix}.clientAuth": "need",
    }


def _read_key(path: str) -> str:
    """Returns a private key. Raises BadInput if ZooKeeper cannot read it."""
    text = _read(path)
    if PKCS8 not in text:
        raise BadInput(
            f"{path}: ZooKeeper reads keys in the format PKCS #8 only: "
            f"openssl pkcs8 -topk8 -nocrypt -in {path} -out key.pem"
        )
    return text if text.endswith("\n") else f"{text}\n"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    """Replaces a file as a whole. Only its owner may read it, because some hold secrets."""
    with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def _utf_16(text: str) -> Iterator[int]:
    """Yields the code units of a text, as Java counts characters."""
    data = text.encode("utf-16-be", "surrogatepass")
    yield from (int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2))
