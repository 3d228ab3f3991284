"""TLS: the contexts for a client's connections, from the certificate files that the caller names."""

from __future__ import annotations

import os
import ssl

from warren.errors import BadInput

TlsFile = str | os.PathLike[str] | None


def tls_context(
    tls: ssl.SSLContext | bool | None, ca: TlsFile, certificate: TlsFile, key: TlsFile
) -> ssl.SSLContext | None:
    """Returns the context of a client's connections; None if they do not use TLS.

    The broker's certificate must be signed by one in the file `ca`, or, without `ca`, by one that this machine trusts.
    If the broker asks for a client certificate, it gets the one in the file `certificate`. Raises BadInput if the
    arguments contradict each other, or a file cannot be read.
    """
    files = [file for file in (ca, certificate, key) if file is not None]
    if isinstance(tls, ssl.SSLContext):
        if files:
            raise BadInput("pass either your own TLS context or certificate files, not both")
        return tls
    if key is not None and certificate is None:
        raise BadInput("a key needs its certificate")
    if tls is False and files:
        raise BadInput("tls=False contradicts the certificate files")
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


def unchecked_context() -> ssl.SSLContext:
    """Returns a context that accepts any certificate. Only for a probe over which nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
