"""Numbered calls: one that is sent again because its answer was lost is answered again, and not done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from warren.broker.call import Answer
from warren.config import OWN_ANSWERS_MAX, OWN_ANSWERS_SIZE_MAX
from warren.errors import BadInput, OutcomeUnknown


class AnswerRoom:
    """How many bytes of answers all sessions of a broker keep. For the event loop's thread alone."""

    def __init__(self, size_max: int = OWN_ANSWERS_SIZE_MAX) -> None:
        self._left = size_max

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes more, which are taken."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        self._left += size


class Answers:
    """The calls of a session that may be sent again, by number. For the event loop's thread alone.

    Invariant: a call is done once. From when it begins until the client says that it has the answer it is known here:
    it is under way, or its answer is kept, or it is known that there was one and no room for it. What is below
    `_below` the client has an answer to, whatever still comes of it.
    """

    def __init__(self, room: AnswerRoom) -> None:
        self._room = room
        self._below, self._is_closed = 0, False
        self._under_way: dict[int, asyncio.Future[None]] = {}
        self._given: dict[int, Answer] = {}
        self._keys: dict[int, int] = {}

    async def answer(
        self, api_key: int, number: int, answered_below: int, work: Callable[[], Awaitable[tuple[Answer, bool]]]
    ) -> Answer:
        """The answer to call `number`: that of `work`, which also says whether it did anything, or the one before.

        BadInput where the number stood for a call of another kind.
        """
        self._forget(answered_below)
        if self._keys.get(number, api_key) != api_key:
            raise BadInput(f"call {number} was another one")
        while (other := self._under_way.get(number)) is not None:
            await other
        if number in self._given:
            answer = self._given[number]
            if answer is None:
                raise OutcomeUnknown("", "its answer was too large to be kept")
            return answer
        if number < self._below:
            raise OutcomeUnknown("", f"call {number} was answered before")
        done = self._under_way[number] = asyncio.get_running_loop().create_future()
        self._keys[number] = api_key
        try:
            answer, is_done = await work()
            if is_done:
                self._keep(number, answer)
            return answer
        finally:
            del self._under_way[number]
            if number not in self._given:
                self._keys.pop(number, None)
            done.set_result(None)

    def _keep(self, number: int, answer: Answer) -> None:
        if self._is_closed:
            return
        self._given[number] = answer if self._room.take(size_of(answer)) else None
        while len(self._given) > OWN_ANSWERS_MAX:
            self._forget(min(self._given) + 1)

    def _forget(self, below: int) -> None:
        """The client has the answers to all calls below this number."""
        if below > self._below:
            self._below = below
            for number in [number for number in self._given if number < below]:
                self._room.give_back(size_of(self._given.pop(number)))
                del self._keys[number]

    def close(self) -> None:
        """Keep nothing, also of what is under way."""
        self._is_closed = True
        for answer in self._given.values():
            self._room.give_back(size_of(answer))
        self._given = {}
        self._keys = {}


def size_of(answer: Answer) -> int:
    """About how many bytes an answer takes that is kept."""
    return sum(map(len, answer or ()))
