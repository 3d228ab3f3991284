"""kafka-python sometimes leaves a socket to the garbage collector when it is closed, which then warns about it."""

from __future__ import annotations

from typing import Final

import pytest

LEAVES_SOCKETS: Final = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]
"""The marks of a module that uses it."""
