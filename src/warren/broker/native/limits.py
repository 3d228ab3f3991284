"""What our own calls may hold, wait for and leave behind at the broker: counts, sizes in bytes, waits in seconds."""

from __future__ import annotations

from typing import Final

NATIVE_ANSWER_SIZE_TARGET: Final = 8 << 20
"""About how many bytes of messages one answer of our own calls holds."""
NATIVE_TAKEN_FIRST: Final = 16
"""How many messages a worker takes first, so that the broker learns how large they are before it takes more."""
NATIVE_LOOK_S: Final = 0.5
"""How often a request that waits looks at what no log tells: leases that run out, partitions that change hands."""
NATIVE_HANDLES_MAX: Final = 10_000
"""How many groups, transactions, producers and queues one client may have open."""
NATIVE_RETRIED_MAX: Final = 10_000
"""How many repeated appends are remembered, in case the first try arrives later."""
NATIVE_LOOK_SHARED_MAX: Final = 20
"""Of how many who wait for the same one looks in that time; more of them look more often."""
NATIVE_SESSION_S: Final = 10.0
"""For how long a session outlasts its last connection, so that a client whose connection broke finds all it held."""
NATIVE_ANSWERS_MAX: Final = 2_000
NATIVE_ANSWERS_STEP: Final = 4 << 10
"""How many answers of a session are kept for calls that are sent again, and in which steps memory is taken for them."""
