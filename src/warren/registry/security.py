"""The protection of a registry: the secret of the cluster, and the files of TLS."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import stat
from dataclasses import dataclass, replace
from typing import Final

from warren.errors import BadInput
from warren.tls import tls_context

SECRET_SIZE_MIN: Final = 8
SECRET_SIZE_MAX: Final = 1024

SECRET_USER: Final = "warren"
"""The user name that goes with the secret in the ACL of every node."""
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a cluster's TLS. Servers and clients use the same: each shows its certificate and checks the
    other's.

    `authority` has signed all certificates. `key` is the private key of `certificate`. A client `checks_host`, except
    when it connects to a server that it has started itself, which may have any name.
    """

    authority: str
    certificate: str
    key: str
    checks_host: bool = True

    def context(self) -> ssl.SSLContext:
        """Returns the context of a client's connections. Raises BadInput if a file cannot be used."""
        context = tls_context(True, self.authority, self.certificate, self.key)
        assert context is not None
        context.check_hostname = self.checks_host
        return context

    def of_own_server(self) -> TlsFiles:
        """Returns the files for a client of the server that this process started, which may have any name in its
        certificate.
        """
        return replace(self, checks_host=False)


def tls_files(authority: str | None, certificate: str | None, key: str | None) -> TlsFiles | None:
    """Returns the three files, or None if none is named.

    Raises BadInput if only some are named, or one cannot be used.
    """
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise BadInput("TLS needs three files: --tls-ca, --tls-certificate and --tls-key")
    files = TlsFiles(authority=authority, certificate=certificate, key=key)
    files.context()
    return files


def read_secret(path: str) -> str:
    """Returns the first line of a file that only its owner may read. Raises BadInput if it is not a valid secret."""
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & OTHERS:
                raise BadInput(f"{path} can be read by other users: chmod 600 {path}")
            secret = file.readline(SECRET_SIZE_MAX + 2).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"{path}: {reason}") from None
    return checked_secret(secret)


def checked_secret(secret: str) -> str:
    """Returns `secret`. Raises BadInput, which does not show it, if it is too short or too long."""
    if not SECRET_SIZE_MIN <= len(secret.encode()) <= SECRET_SIZE_MAX:
        raise BadInput(
            f"the secret of the cluster has {len(secret.encode())} bytes; expected {SECRET_SIZE_MIN} to "
            f"{SECRET_SIZE_MAX}, such as the output of `openssl rand -hex 32`"
        )
    return secret


def secret_digest(secret: str) -> str:
    """Returns the digest by which a server recognises the secret. Its holder may use every node.

    SHA-1 is ZooKeeper's choice.
    """
    digest = hashlib.sha1(f"{SECRET_USER}:{secret}".encode(), usedforsecurity=False).digest()
    return f"{SECRET_USER}:{base64.b64encode(digest).decode()}"
