"""GatheredBatch: messages that are written together, and the futures of those who put them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from warren.clock import Duration, seconds_of
from warren.errors import BadInput
from warren.message import NO_CORR_OFFSET, Place


class PutsMany(Protocol):
    """A topic, here or behind a broker, as far as messages are put to it together."""

    @property
    def name(self) -> str: ...
    def route(self, key: bytes | None) -> int: ...
    def check_bodies(self, bodies: Sequence[bytes]) -> None: ...
    @property
    def put_many(self) -> Callable[..., Sequence[Place]]: ...


class GatheredBatch:
    """Messages as columns. It is gathered, and ended, by whoever holds the lock of `ended`; one thread writes it.

    Nothing is made for each message but its future, and when it is written there is nothing to be done for each.
    """

    __slots__ = ("_callbacks", "_errors", "_places", "bodies", "columns", "ended", "is_ended", "size")

    def __init__(self, ended: threading.Condition) -> None:
        self.ended, self.is_ended, self.size = ended, False, 0
        self.bodies: list[bytes] = []
        self.columns: tuple[list[Any], ...] = ([], [], [], [], [])
        self._places: Sequence[Place | None] = ()
        self._errors: dict[int, Exception] | Exception = {}
        self._callbacks: list[Callable[[], object]] = []

    def add(
        self,
        body: bytes,
        tag: str,
        key: bytes | None,
        id: str,
        headers: Mapping[str, bytes] | None,
        corr_offset: int,
        size: int,
    ) -> PutFuture:
        """One message more; its future."""
        future = PutFuture(self, len(self.bodies))
        self.bodies.append(body)
        tags, keys, ids, all_headers, corr_offsets = self.columns
        tags.append(tag)
        keys.append(key)
        ids.append(id)
        all_headers.append(headers)
        corr_offsets.append(corr_offset)
        self.size += size
        return future

    def write(self, topic: PutsMany, partition: int | None) -> None:
        """Put the messages. What goes wrong is kept for their futures."""
        try:
            self._places = topic.put_many(**self._rows(slice(None)), partition=partition)
        except BadInput:
            # Nothing was written, because of one of them: the others are not to suffer for it.
            errors: dict[int, Exception] = {}
            self._errors = errors
            self._places = [self._alone(topic, partition, row, errors) for row in range(len(self.bodies))]
        except Exception as error:  # noqa: BLE001 (whatever it is, it is for those who put)
            self._errors = error

    def _alone(self, topic: PutsMany, partition: int | None, row: int, errors: dict[int, Exception]) -> Place | None:
        try:
            return topic.put_many(**self._rows(slice(row, row + 1)), partition=partition)[0]
        except Exception as error:  # noqa: BLE001 (as above)
            errors[row] = error
            return None

    def _rows(self, rows: slice) -> dict[str, Any]:
        """What `put_many` takes; a column that nobody has a value in is left out."""
        tags, keys, ids, headers, corr_offsets = (column[rows] for column in self.columns)
        return {
            "bodies": self.bodies[rows],
            "tags": tags if any(tags) else None,
            "keys": keys if keys.count(None) < len(keys) else None,
            "ids": ids if any(ids) else None,
            "headers": headers if any(headers) else None,
            "corr_offsets": corr_offsets if corr_offsets.count(NO_CORR_OFFSET) < len(corr_offsets) else None,
        }

    def end(self) -> list[Callable[[], object]]:
        """Its futures are done; whom to call. The messages are let go of: futures may be kept for long."""
        self.is_ended, self.bodies, self.columns = True, [], ()
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    def when_ended(self, call: Callable[[], object]) -> None:
        """`call` is called when the futures are done, by the thread that wrote; now where they are."""
        with self.ended:
            if not self.is_ended:
                self._callbacks.append(call)
                return
        call()

    def outcome(self, row: int) -> Place | Exception:
        """What became of a message, when the batch has ended."""
        errors = self._errors
        if isinstance(errors, Exception):
            return errors
        place = self._places[row]
        return errors[row] if place is None else place


class PutFuture:
    """The place of a message that is about to be written. Its methods are those of `concurrent.futures.Future`."""

    __slots__ = ("batch", "row")

    def __init__(self, batch: GatheredBatch, row: int) -> None:
        self.batch, self.row = batch, row

    def done(self) -> bool:
        return self.batch.is_ended

    def result(self, timeout: Duration | None = None) -> Place:
        """The place, when the message is written; what went wrong is raised. TimeoutError after `timeout` seconds."""
        outcome = self._outcome(timeout)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def exception(self, timeout: Duration | None = None) -> Exception | None:
        """What went wrong, when that is known; None where nothing did."""
        outcome = self._outcome(timeout)
        return outcome if isinstance(outcome, Exception) else None

    def _outcome(self, timeout: Duration | None) -> Place | Exception:
        batch = self.batch
        if not batch.is_ended:
            with batch.ended:
                if not batch.ended.wait_for(lambda: batch.is_ended, seconds_of(timeout)):
                    raise TimeoutError(f"not written within {seconds_of(timeout)} seconds")
        return batch.outcome(self.row)

    def add_done_callback(self, call: Callable[[PutFuture], object]) -> None:
        """`call` gets this future when it is done; called by the thread that wrote, or here where it is done now."""
        self.batch.when_ended(partial(call, self))

    def __repr__(self) -> str:
        return f"<PutFuture: {self.batch.outcome(self.row) if self.done() else 'not written yet'}>"
