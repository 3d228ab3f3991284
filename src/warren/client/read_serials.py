"""ReadSerials: which reads of a member were not answered, so that no message is skipped that the caller never got."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from warren.errors import ConnectionLost, OutcomeUnknown, WarrenError
from warren.protocol.native_messages import ReadGroupRequest
from warren.protocol.wire_struct import replaced


class ReadSerials:
    """The serials of the reads of one member. Any thread may call.

    The broker moves past what it puts into an answer. If the answer may have been lost, the next read has the same
    serial, and the broker goes back first. Each request has the number of its attempt, because one that was sent into a
    connection that was cut may reach the broker after its repetition.
    """

    def __init__(self) -> None:
        self._serials, self._attempts = itertools.count(), itertools.count()
        self._mutex = threading.Lock()
        self._reading: set[int] = set()
        """The reads that wait for an answer."""
        self._unanswered: list[int] = []
        """The reads whose answers may have been lost. The next reads repeat them."""

    @property
    def has_unanswered(self) -> bool:
        return bool(self._unanswered)

    @contextmanager
    def reading(self, handle: int, limit: int) -> Iterator[ReadGroupRequest]:
        """Yields the request of a read. If the block ends with an error, the answer may have been lost."""
        with self._mutex:
            serial = self._unanswered.pop(0) if self._unanswered else next(self._serials)
            self._reading.add(serial)
            open_from = min(itertools.chain(self._reading, self._unanswered))
        is_answered = False
        try:
            yield ReadGroupRequest(handle, serial, next(self._attempts), open_from, limit)
            is_answered = True
        except WarrenError as error:
            # An error that the broker answers with has moved nothing.
            is_answered = not (error.retryable or isinstance(error, ConnectionLost | OutcomeUnknown))
            raise
        finally:
            with self._mutex:
                self._reading.remove(serial)
                if not is_answered:
                    self._unanswered.append(serial)

    def next_attempt(self, request: ReadGroupRequest) -> ReadGroupRequest:
        """Returns the request as a later attempt: the broker refuses an earlier one that reaches it later."""
        return replaced(request, attempt=next(self._attempts))

    def forget_unanswered(self) -> None:
        """Called when the broker has gone back by itself."""
        with self._mutex:
            self._unanswered.clear()
