"""Limits of requests over HTTP that more than one module checks. Sizes are in bytes."""

from __future__ import annotations

from typing import Final

HTTP_BODY_SIZE_MAX: Final = 4 << 20
"""The body of a request over HTTP, and the largest message that can be put or read over HTTP."""
HTTP_ANSWER_SIZE_TARGET: Final = 1 << 20
"""About how many bytes of bodies one reply over HTTP carries."""
HTTP_LIMIT_MAX: Final = 1000
"""How many messages one request over HTTP may put or request."""
HTTP_WAIT_S_MAX: Final = 20.0
"""How long a request over HTTP may wait for messages."""
