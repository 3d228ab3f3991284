"""TLS: the context for the connections of the broker, from the files that the configuration names."""

from __future__ import annotations

import os
import ssl

from warren.errors import BadConfiguration


def tls_context(certificate: str, key: str = "", client_ca: str = "") -> ssl.SSLContext | None:
    """Returns the context of a listener; None without a certificate. With `client_ca` clients need one as well.

    Raises BadConfiguration if other files are named without a certificate, or a file cannot be read.
    """
    if not certificate:
        if key or client_ca:
            raise BadConfiguration("tls.certificate", "it is missing, and the other keys of [tls] are not")
        return None
    for name, path in (("certificate", certificate), ("key", key), ("client_ca", client_ca)):
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
