"""Limits that several packages share. Sizes are in bytes, waits in seconds."""

from __future__ import annotations

from typing import Final

NAME_SIZE_MAX: Final = 249
"""The name of a topic."""
READER_NAME_SIZE_MAX: Final = 200
GROUP_NAME_SIZE_MAX: Final = READER_NAME_SIZE_MAX
"""The name of a group becomes the name of its readers."""
PARTITIONS_MAX: Final = 1000
"""Partitions of one topic."""

READ_LIMIT_DEFAULT: Final = 1000
"""How many messages a read returns at most if the caller sets no limit."""
WAIT_S_MAX: Final = 86_400.0
"""How long a caller may wait for messages or results with one call."""
DELAY_S_MAX: Final = 100 * 366 * 86_400.0
"""How far in the future a message may be put."""
LOCK_WAIT_S_MAX: Final = 30.0
"""How long a process waits for a file lock that another process holds."""
TRANSACTION_TIMEOUT_S_DEFAULT: Final = 60.0
"""After how long an open transaction is aborted if the caller sets no timeout."""
