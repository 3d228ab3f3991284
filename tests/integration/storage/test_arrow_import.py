"""Arrow is imported when it is first needed, not before."""

from __future__ import annotations

import subprocess
import sys

from tests.tidy.source import SOURCE


def test_arrow_is_not_imported_before_it_is_needed() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import warren.storage; print('pyarrow' in sys.modules)"

    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert ended.stdout.strip() == "False"
