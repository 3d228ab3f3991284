"""TLS: the context by which a client makes its connections secure, of the files that it was told."""

from __future__ import annotations

import os
import ssl

from warren.errors import BadInput

File = str | os.PathLike[str] | None


def tls_context(tls: ssl.SSLContext | bool | None, ca: File, certificate: File, key: File) -> ssl.SSLContext | None:
    """The context of a client's connections; None where they are not secure.

    Whoever signed the broker's certificate is in the file `ca`, or trusted by this machine. A broker that wants to see
    a certificate of the client is shown the one in the file `certificate`.
    """
    files = [file for file in (ca, certificate, key) if file is not None]
    if isinstance(tls, ssl.SSLContext):
        if files:
            raise BadInput("give either a context of your own, or files for one")
        return tls
    if key is not None and certificate is None:
        raise BadInput("a key is of no use without its certificate")
    if tls is False and files:
        raise BadInput("tls=False, and certificates for it")
    if not tls and not files:
        return None
    for file in files:
        if not os.access(file, os.R_OK):
            raise BadInput(f"{os.fspath(file)} cannot be read")
    try:
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        names = ", ".join(os.fspath(file) for file in files)
        raise BadInput(f"{names}: {error.reason or error}") from error
    return context
