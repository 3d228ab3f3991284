"""Asks the broker of this container whether it lives: exits with 0 if /healthz answers, with 1 if it does not."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request
from typing import Final

TIMEOUT_S: Final = 4.0
PORT_DEFAULT: Final = "8080"


def is_healthy(port: str) -> bool:
    """Whether /healthz answers on `port` of this machine, over HTTP or, if the broker has a certificate, over TLS."""
    # The certificate names the host that clients see, not this loopback address.
    trusting = ssl._create_unverified_context()
    for scheme in ("http", "https"):
        try:
            address = f"{scheme}://127.0.0.1:{port}/healthz"
            with urllib.request.urlopen(address, timeout=TIMEOUT_S, context=trusting) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            continue
    return False


if __name__ == "__main__":
    sys.exit(0 if is_healthy(os.environ.get("WARREN_HTTP_PORT", PORT_DEFAULT)) else 1)
