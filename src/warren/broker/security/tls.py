"""TLS: the context for the connections of the broker, from the files that the configuration names."""

from __future__ import annotations

import os
import ssl

from warren.errors import BadConfiguration, BadInput
from warren.tls import tls_context as client_context


def tls_context(certificate: str, key: str = "", client_ca: str = "", replica_ca: str = "") -> ssl.SSLContext | None:
    """Returns the context of a listener; None without a certificate. With `client_ca` clients need one as well.

    Raises BadConfiguration if other files are named without a certificate, or a file cannot be read.
    """
    if not certificate:
        if key or client_ca or replica_ca:
            raise BadConfiguration("tls.certificate", "it is missing, and the other keys of [tls] are not")
        return None
    for name, path in (
        ("certificate", certificate),
        ("key", key),
        ("client_ca", client_ca),
        ("replica_ca", replica_ca),
    ):
        if path and not os.access(path, os.R_OK):
            raise BadConfiguration(f"tls.{name}", f"{path} cannot be read")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise BadConfiguration("tls", f"{certificate}, {key or certificate}: {error.reason or error}") from error
    return context


def replica_context(
    certificate: str, key: str = "", client_ca: str = "", replica_ca: str = ""
) -> ssl.SSLContext | None:
    """Returns the context with which a replica connects to others; None without a certificate, which it shows.

    The other one's certificate must have the host of its advertised address. Raises BadConfiguration if a file cannot
    be used.
    """
    if not certificate:
        return None
    try:
        return client_context(True, replica_ca or client_ca or None, certificate, key or certificate)
    except BadInput as error:
        raise BadConfiguration("tls", str(error)) from error
