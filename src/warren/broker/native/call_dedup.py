"""Numbered calls: a call that is sent again because its answer was lost is answered again, but executed once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from warren.broker.net.request import Answer
from warren.broker.services.memory_budget import MemoryBudget, MemoryKind
from warren.errors import BadInput, OutcomeUnknown

NATIVE_ANSWERS_MAX: Final = 2_000
"""How many answers a session stores for calls that may be sent again."""
NATIVE_ANSWERS_STEP: Final = 4 << 10
"""The memory of the stored answers is taken from the budget in steps of this size."""


class AnswerRoom:
    """The memory for the answers that one session stores. For the event loop's thread alone.

    It is taken from the budget in steps, because most answers are small and soon dropped.
    """

    def __init__(self, budget: MemoryBudget, owner: str) -> None:
        self._budget, self._owner = budget, owner
        self._hold, self._size = budget.hold(MemoryKind.SESSIONS, 0, owner), 0

    def take(self, size: int) -> bool:
        """Takes `size` more bytes. Returns False, and takes none, if there is no room for them."""
        more = self._size + size - self._hold.size
        if more > 0:
            more = max(more, NATIVE_ANSWERS_STEP)
            if not self._budget.may_keep(more, self._owner):
                self._budget.refusals += 1
                return False
            self._hold.resize(self._hold.size + more)
        self._size += size
        return True

    def give_back(self, size: int) -> None:
        """Gives `size` bytes back."""
        self._size -= size
        if self._hold.size - self._size > 2 * NATIVE_ANSWERS_STEP:
            self._hold.resize(self._size + NATIVE_ANSWERS_STEP)

    def close(self) -> None:
        """Gives all bytes back."""
        self._size = 0
        self._hold.release()


class Answers:
    """The calls of a session that may be sent again, by number. For the event loop's thread alone.

    Invariant: a call is executed once. It is kept, running or with its answer, until the client confirms the answer;
    the client has the answers of all calls before `_below`. If there is no room for an answer, only the fact is kept
    that the call was executed.
    """

    def __init__(self, room: AnswerRoom) -> None:
        self._room = room
        self._below, self._is_closed = 0, False
        self._under_way: dict[int, asyncio.Future[None]] = {}
        self._answers: dict[int, Answer] = {}
        self._keys: dict[int, int] = {}

    async def answer(
        self, api_key: int, number: int, answered_below: int, work: Callable[[], Awaitable[tuple[Answer, bool]]]
    ) -> Answer:
        """Returns the answer to call `number`: the stored one, or that of `work`, which also says if it did anything.

        Raises BadInput if another kind of call had this number, and OutcomeUnknown if the call was executed and its
        answer is not stored.
        """
        self._forget(answered_below)
        if self._keys.get(number, api_key) != api_key:
            raise BadInput(f"call {number} was another one")
        while (other := self._under_way.get(number)) is not None:
            await other
        if number in self._answers:
            answer = self._answers[number]
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
            if number not in self._answers:
                self._keys.pop(number, None)
            done.set_result(None)

    def _keep(self, number: int, answer: Answer) -> None:
        if self._is_closed:
            return
        self._answers[number] = answer if self._room.take(size_of(answer)) else None
        while len(self._answers) > NATIVE_ANSWERS_MAX:
            self._forget(min(self._answers) + 1)

    def _forget(self, below: int) -> None:
        """Drops the answers to all calls below this number, because the client has received them."""
        if below > self._below:
            self._below = below
            for number in [number for number in self._answers if number < below]:
                self._room.give_back(size_of(self._answers.pop(number)))
                del self._keys[number]

    def close(self) -> None:
        """Drops all answers, and stores none of the calls that still run."""
        self._is_closed = True
        self._room.close()
        self._answers = {}
        self._keys = {}


def size_of(answer: Answer) -> int:
    """Returns about how many bytes a stored answer takes."""
    return sum(map(len, answer or ()))
