"""The life of one log through many power cuts, drawn from one seed: another run does exactly the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from tests.crash.model import Crash, Sent, Setup
from tests.crash.world import READERS, Step, World
from tests.support.compression import Compression

TAGS: Final = ("", "eu.de", "eu.fr", "us")
STEPS_BETWEEN_CUTS_MAX: Final = 5
MESSAGES_MAX: Final = 150
BLOCK_SIZE_LARGE: Final = 64 << 10
CUT_AGAIN_CHANCE: Final = 0.35
CRASHES: Final[dict[Crash, int]] = {"power cut": 55, "loss": 30, "kill": 15}
"""The ways to die, and how often each is drawn out of a hundred."""
PEEK_CHANCE: Final = 0.2


class LifeFailed(AssertionError):
    """A promise was broken. The seed is enough to repeat it."""

    def __init__(self, seed: int, world: World, error: BaseException) -> None:
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"{world.setup}, after {world.crashes}\n"
            f"run it again with: python -m tests.crash.forever --seed {seed} --lives 1"
        )
        self.seed = seed


class Life:
    """One log that is opened, used, cut and recovered repeatedly."""

    def __init__(self, seed: int, setup: Setup | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = World(setup or draw_setup(self.random), seed)
        self._sent = 0

    def run(self, cuts: int) -> None:
        """Lives through `cuts` crashes that lose unsynced data. Raises LifeFailed at the first broken promise."""
        try:
            self._reopen()
            while self.world.loss_count < cuts:
                self._live_until_crash()
                self._reopen()
        except Exception as error:
            raise LifeFailed(self.seed, self.world, error) from error

    def _live_until_crash(self) -> None:
        for _ in range(self.random.randrange(STEPS_BETWEEN_CUTS_MAX + 1)):
            self._perform(self._draw_step())
        step = self._draw_step()
        self.world.perform(step, self.world.draw_moment(step))
        self.world.crash(self._draw_crash(), self.random.getrandbits(32))

    def _reopen(self) -> None:
        """Opens and compares; sometimes the power fails again while the log recovers."""
        if self.random.random() < PEEK_CHANCE:
            self.world.peek()
        step = Step("open", self.world.open)
        while self.random.random() < CUT_AGAIN_CHANCE and not self.world.perform(step, self.world.draw_moment(step)):
            self.world.crash(self._draw_crash(), self.random.getrandbits(32))
        if not self.world.is_open:
            self._perform(step)
        self.world.check()
        self.world.check_backwards()

    def _perform(self, step: Step) -> None:
        finished = self.world.perform(step)
        assert finished

    def _draw_crash(self) -> Crash:
        (crash,) = self.random.choices(list(CRASHES), weights=list(CRASHES.values()))
        return crash

    def _draw_step(self) -> Step:
        names = ("append", "append_many", "retire", "commit", "background", "reopen")
        (name,) = self.random.choices(names, weights=(10, 6, 2, 4, 2, 2))
        if self.world.log.end - self.world.log.first > MESSAGES_MAX:
            name = "retire"
        return Step(name, self._actions()[name]())

    def _actions(self) -> dict[str, Callable[[], Callable[[], None]]]:
        return {
            "append": lambda: partial(self.world.append, self._draw_message()),
            "append_many": lambda: partial(self.world.append_many, self._draw_batch()),
            "retire": lambda: partial(
                self.world.retire,
                self._draw_number(),
                exactly=self.random.random() < 0.5,
                rolls=self.random.random() < 0.5,
            ),
            "commit": lambda: partial(
                self.world.commit_reader, self.random.choice(list(READERS)), self.random.randint(1, 20)
            ),
            "background": lambda: self.world.background.run,
            "reopen": lambda: self._close_and_open,
        }

    def _close_and_open(self) -> None:
        self.world.close()
        self.world.open()
        self.world.check_all()

    def _draw_number(self) -> int:
        return self.random.randint(self.world.log.first, self.world.log.end)

    def _draw_batch(self) -> list[Sent]:
        return [self._draw_message() for _ in range(self.random.choice((1, 2, 3, 10, 40, 70)))]

    def _draw_message(self) -> Sent:
        """Returns a message unlike every other of this life."""
        self._sent += 1
        random = self.random
        size = random.choice((0, 1, 20, 100, 100, 300, random.randrange(2500)))
        if self.world.setup.block_size >= BLOCK_SIZE_LARGE and random.random() < 0.1:
            size = random.randrange(BLOCK_SIZE_LARGE // 2)
        body = (b"%d:" % self._sent + random.randbytes(4) * (size // 4 + 1))[: max(size, 12)]
        tag = random.choice(TAGS)
        identity = f"id-{self._sent}" if random.random() < 0.3 else ""
        if self.world.setup.version == 1 or random.random() < 0.5:
            return Sent(body, tag, id=identity)
        key = random.choice((None, b"", b"key-%d" % (self._sent % 3)))
        headers = {"trace": b"%d" % self._sent} if random.random() < 0.3 else {}
        return Sent(body, tag, key, headers, identity)


def draw_setup(random: Random) -> Setup:
    """Mostly the strongest promise: version 2 with every commit synced."""
    version = random.choice((2, 2, 2, 1))
    compressions: tuple[Compression, ...] = ("none", "none", "zstd", "lz4") if version == 2 else ("none",)
    durabilities = ("commit", "commit", "commit", "os", "interval:50ms")
    is_shared = random.random() < 0.3
    return Setup(
        version=version,
        durability=random.choice(durabilities),
        compression=random.choice(compressions),
        block_size=random.choice((4 << 10, 8 << 10, 16 << 10, BLOCK_SIZE_LARGE)),
        max_block_count=random.choice((2, 3, 4, 8)),
        exclusive=not is_shared and random.random() < 0.4,
        second_durability=random.choice(durabilities) if is_shared else None,
    )
