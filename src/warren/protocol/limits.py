"""Limits of requests and answers that more than one module checks: sizes in bytes, counts, waits in seconds."""

from __future__ import annotations

from typing import Final

from warren.storage.format.limits import BODY_SIZE_MAX

FRAME_SIZE_MAX: Final = 100 << 20
"""The largest request that the broker accepts: Kafka's own default."""
ANSWER_SIZE_MAX: Final = BODY_SIZE_MAX + (1 << 20)
"""The largest answer that Warren's client accepts: one message of the largest size, and everything around it."""
FRAME_BUFFER_SIZE: Final = 64 << 10
"""The buffer of each connection for small frames. Larger ones get their own buffer."""
REQUEST_ARRAY_COUNT_MAX: Final = 10_000
"""The most elements of one array of a request, such as topics, keys or partitions, if it has no own limit."""
SCRAM_NONCE_SIZE: Final = 24
NATIVE_LIMIT_MAX: Final = 65_536
"""How many messages one answer of Warren's own calls may hold."""
NATIVE_WAIT_S_MAX: Final = 20.0
"""How long one request of Warren's own calls may wait at the broker. Clients that wait longer repeat it."""
