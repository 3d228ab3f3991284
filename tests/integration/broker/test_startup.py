"""A broker process is ready for requests of every kind when it has started."""

from __future__ import annotations

import subprocess
import sys


def test_modules_for_scans_are_loaded_before_the_first_request() -> None:
    program = "import sys; from warren.broker.server import settle_down as ready; ready(); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "pyarrow" in loaded
