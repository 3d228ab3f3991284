"""A proxy between clients and broker that forwards bytes, and at random cuts within a frame, delays or goes silent."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
PIECE: Final = 64 << 10
MOODS: Final = {"plain": 5, "cut": 3, "slow": 2, "silent": 1}
CUT_AFTER: Final = (200, 200_000)
SLOW_S_MAX: Final = 0.05
SILENT_S_MAX: Final = 6.0
START_S_MAX: Final = 10.0


class Proxy:
    """Listens on loopback from its creation until it is closed; runs in its own thread.

    Each connection has a mood, drawn from the seed: to be cut after some bytes, in any frame, to pass everything on
    late, or to fall silent and then be cut. While it `is_calm`, new connections are plain.
    """

    def __init__(self, target_port: int, seed: int) -> None:
        self._target_port, self._random = target_port, random.Random(seed)
        self.is_calm = False
        self.counts: Counter[str] = Counter()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._stopping: asyncio.Event | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(started.set),))
        self._thread.start()
        assert started.wait(START_S_MAX)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def _serve(self, started: Callable[[], None]) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        started()
        await self._stopping.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mood = "plain" if self.is_calm else self._random.choices([*MOODS], [*MOODS.values()])[0]
        try:
            there_reader, there_writer = await asyncio.open_connection(HOST, self._target_port)
        except OSError:
            self.counts["refused"] += 1
            writer.transport.abort()
            return
        self.counts[mood] += 1
        # Both directions together: the bytes at the cut may be a request or an answer.
        left = [self._random.randint(*CUT_AFTER)]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(reader, there_writer, mood, left))
                tasks.create_task(self._forward(there_reader, writer, mood, left))
        except* (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()
            there_writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mood: str, left: list[int]
    ) -> None:
        while data := await reader.read(PIECE):
            if mood == "slow" and not self.is_calm:
                await asyncio.sleep(self._random.random() * SLOW_S_MAX)
            if mood in ("cut", "silent") and len(data) >= left[0]:
                writer.write(data[: left[0]])
                if mood == "silent":
                    await asyncio.sleep(self._random.random() * SILENT_S_MAX)
                break
            left[0] -= len(data)
            writer.write(data)
            await writer.drain()
        raise EOFError

    def close(self) -> None:
        """Cuts every connection, and stops listening."""
        with suppress(RuntimeError):
            assert self._stopping is not None
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_S_MAX)
        self._loop.close()
