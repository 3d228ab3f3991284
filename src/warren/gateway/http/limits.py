"""What a request over HTTP may send, ask for and wait for: counts, sizes in bytes, waits in seconds."""

from __future__ import annotations

from typing import Final

HTTP_HEAD_SIZE_MAX: Final = 32 << 10
"""The first line and the headers of a request over HTTP."""
HTTP_BODY_SIZE_MAX: Final = 4 << 20
"""The body of a request over HTTP, and the largest message that is given over it."""
HTTP_ELEMENTS_MAX: Final = 50_000
"""The most values in the JSON of a request: reading more would keep every other thread waiting."""
HTTP_SCANNED_SIZE_MAX: Final = 64 << 20
"""About how many bytes of bodies a read backwards looks at for those that pass its filter."""
HTTP_ANSWER_SIZE_TARGET: Final = 1 << 20
"""About how many bytes of bodies one answer over HTTP holds."""
HTTP_LIMIT_MAX: Final = 1000
"""How many messages one request over HTTP may put, or ask for."""
HTTP_CONNECTIONS_MAX: Final = 256
HTTP_SPARE_CONNECTIONS_MAX: Final = 16
"""Places beside the others, in which only questions about health and metrics are answered."""
HTTP_IDLE_S_MAX: Final = 60.0
"""How long a connection over HTTP may take to begin another request."""
HTTP_HEAD_S_MAX: Final = 10.0
"""How long the head of a request may take, from its first byte on, or from the start of the connection on."""
HTTP_RECEIVE_S_MAX: Final = 60.0
HTTP_SEND_S_MAX: Final = 30.0
"""How long the body of a request may take to come, and a client to take an answer."""
HTTP_LINGER_S_MAX: Final = 2.0
"""How long what a client goes on sending is read and forgotten, so that it gets to see why it was refused."""
HTTP_WAIT_S_MAX: Final = 20.0
"""How long a request over HTTP may wait for messages."""
HTTP_SCANNED_MAX: Final = 10_000
"""How many messages a read backwards looks at for those that pass its filter."""
HTTP_LOOP_SIZE_MAX: Final = 16 << 10
"""Up to this size JSON is read on the event loop, and above it by a thread."""
