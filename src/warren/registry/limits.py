"""The limits of the registry. Sizes are in bytes, waits in seconds."""

from __future__ import annotations

from typing import Final

WATCHES_MAX: Final = 100_000
"""The watches of one registry."""

CALL_S_DEFAULT: Final = 5.0
"""After how long a call without an answer ends, if the caller does not say."""
SESSION_S_DEFAULT: Final = 6.0
