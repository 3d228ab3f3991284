"""The power is cut at any moment, also while recovering from the cut before, and the log keeps its promise.

The promise, checked after every crash by `World.check`:

- every acknowledged message is there, in order, with its bytes, tag, key, headers and id;
- nothing else is there, except the first few messages of the one call that had not returned;
- numbers have no gaps, timestamps never decrease, and `verify` passes;
- what was appended after a recovery survives the next cut: no record of an earlier life comes back;
- a reader stands where it last committed, or where the commit in flight would have put it.

With `os` and `interval` a power cut may take messages from the end, and only from the end; a killed process takes none.

Version 1 has no checksums. There every message that was synced is as safe as in version 2: with `commit` all that were
acknowledged. Of the others the structure is checked, but a page that was lost in the middle of a body cannot be seen:
they may come back with bytes missing, and from then on stay as they are. Nor has it headers: a block whose first record
was lost has no number, so that a log of `os` or `interval` whose earlier blocks were retired may have to be repaired.
Retiring is tested with `commit` alone there.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.crash.life import TAGS, Life
from tests.crash.model import Crash, Sent, Setup
from tests.crash.world import READERS, Moment, Step, World
from tests.support.line_cutter import LineCutter
from tests.support.simulated_background import SimulatedBackground
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.storage import Log
from warren.storage.append import writer as writer_module
from warren.storage.disk.block import HEADER_SIZE_MAX, BlockHeader
from warren.storage.read import reader as reader_module

CUTS_AT_LEAST = 20_000
PARTS = 20
LIVES_PER_PART = 20
LINES_OF_A_COMMIT = 30
LINES_OF_A_ROLL = 100
SEEDS_OF_A_ROLL = 2
CUTS_OF_A_TORN_HEADER = 40
CUTS_PER_LIFE = CUTS_AT_LEAST // PARTS // LIVES_PER_PART

SETUPS = st.one_of(
    st.builds(
        Setup,
        durability=st.sampled_from(("commit", "interval:50ms", "os")),
        compression=st.sampled_from(("none", "zstd", "lz4")),
        block_size=st.sampled_from((4 << 10, 8 << 10, 16 << 10)),
        max_block_count=st.integers(2, 6),
        exclusive=st.booleans(),
    ),
    st.builds(
        Setup,
        durability=st.sampled_from(("commit", "os")),
        second_durability=st.sampled_from(("commit", "interval:50ms", "os")),
        max_block_count=st.integers(2, 6),
    ),
    st.builds(
        Setup,
        version=st.just(1),
        durability=st.sampled_from(("commit", "interval:50ms", "os")),
        max_block_count=st.integers(2, 6),
    ),
)
HOW_TO_RETIRE = st.tuples(st.booleans(), st.booleans())
"""Whether exactly, and whether with the last block."""
MOMENTS = st.one_of(
    st.none(),
    st.builds(Moment, st.just("line"), st.integers(1, 500)),
    st.builds(Moment, st.just("call"), st.integers(1, 30)),
)
BODIES = st.one_of(st.binary(max_size=200), st.binary(min_size=1, max_size=20).map(lambda part: part * 150))
MESSAGES = st.builds(
    Sent,
    BODIES,
    st.sampled_from(TAGS),
    st.none() | st.binary(max_size=10),
    st.dictionaries(st.sampled_from(("trace", "origin")), st.binary(max_size=10), max_size=2),
    st.text("abc", max_size=5),
)
SEED = st.integers(0, 2**32 - 1)
CRASHES = st.sampled_from(("power cut", "loss", "kill"))


class PowerCutMachine(RuleBasedStateMachine):
    """Hypothesis chooses the steps, the moments and the losses of each cut, and minimises a failure."""

    @initialize(setup=SETUPS, seed=SEED)
    def begin(self, setup: Setup, seed: int) -> None:
        self.world = World(setup, seed)
        self._reopen()

    @rule(sent=MESSAGES, moment=MOMENTS, crash=CRASHES, seed=SEED)
    def append(self, sent: Sent, moment: Moment | None, crash: Crash, seed: int) -> None:
        sent = self._suited(sent)
        self._do("append", lambda: self.world.append(sent), moment, crash, seed)

    @rule(batch=st.lists(MESSAGES, min_size=1, max_size=30), moment=MOMENTS, crash=CRASHES, seed=SEED)
    def append_many(self, batch: list[Sent], moment: Moment | None, crash: Crash, seed: int) -> None:
        batch = [self._suited(sent) for sent in batch]
        self._do("append_many", lambda: self.world.append_many(batch), moment, crash, seed)

    @rule(sent=MESSAGES, count=st.integers(20, 200), moment=MOMENTS, crash=CRASHES, seed=SEED)
    def append_repeated(self, sent: Sent, count: int, moment: Moment | None, crash: Crash, seed: int) -> None:
        """So many that blocks roll, the index grows and block numbers wrap."""
        batch = [self._suited(sent)] * count
        self._do("append_many", lambda: self.world.append_many(batch), moment, crash, seed)

    @rule(share=st.floats(0, 1), how=HOW_TO_RETIRE, moment=MOMENTS, crash=CRASHES, seed=SEED)
    def retire(self, share: float, how: tuple[bool, bool], moment: Moment | None, crash: Crash, seed: int) -> None:
        exactly, rolls = how
        log = self.world.log
        before = log.first + int((log.end - log.first) * share)
        self._do("retire", lambda: self.world.retire(before, exactly=exactly, rolls=rolls), moment, crash, seed)

    @rule(name=st.sampled_from(list(READERS)), limit=st.integers(1, 50), moment=MOMENTS, crash=CRASHES, seed=SEED)
    def commit_reader(self, name: str, limit: int, moment: Moment | None, crash: Crash, seed: int) -> None:
        self._do("commit", lambda: self.world.commit_reader(name, limit), moment, crash, seed)

    @rule(moment=MOMENTS, crash=CRASHES, seed=SEED)
    def run_background(self, moment: Moment | None, crash: Crash, seed: int) -> None:
        """Runs the syncs that no caller waits for."""
        self._do("background", self.world.background.run, moment, crash, seed)

    @rule(moment=MOMENTS, crash=CRASHES, seed=SEED)
    def close_and_open(self, moment: Moment | None, crash: Crash, seed: int) -> None:
        self._do("close_and_open", self._close_and_open, moment, crash, seed)

    @rule(crash=CRASHES, seed=SEED, moment=MOMENTS, crash_again=CRASHES, seed_again=SEED)
    def crash_between_steps(
        self, crash: Crash, seed: int, moment: Moment | None, crash_again: Crash, seed_again: int
    ) -> None:
        """Crashes, and, at `moment` of the recovery, crashes once more."""
        self.world.crash(crash, seed)
        if not self.world.perform(Step("open", self.world.open), moment):
            self.world.crash(crash_again, seed_again)
            self._reopen()
        else:
            self._check()

    @invariant()
    def everything_acknowledged_is_there(self) -> None:
        if hasattr(self, "world"):
            self.world.check_all()

    def _do(self, name: str, action: object, moment: Moment | None, crash: Crash, seed: int) -> None:
        assert callable(action)
        if not self.world.perform(Step(name, action), moment):
            self.world.crash(crash, seed)
            self._reopen()

    def _reopen(self) -> None:
        self.world.open()
        self._check()

    def _check(self) -> None:
        self.world.check()
        self.world.check_backwards()

    def _close_and_open(self) -> None:
        self.world.close()
        self.world.open()

    def _suited(self, sent: Sent) -> Sent:
        """Version 1 does not store keys and headers."""
        return sent if self.world.setup.version == 2 else Sent(sent.body, sent.tag, id=sent.id)


TestPowerCutMachine = PowerCutMachine.TestCase
TestPowerCutMachine.settings = settings(max_examples=80, stateful_step_count=25)


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """New cuts in every run of `make test`; `make test SEED=…` repeats the same ones."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
def test_a_log_keeps_its_promise_through_many_power_cuts(part: int, first_seed: int) -> None:
    for life in range(LIVES_PER_PART):
        Life(first_seed + part * LIVES_PER_PART + life).run(CUTS_PER_LIFE)


def test_a_version_1_reader_killed_during_a_commit_has_its_old_or_new_position() -> None:
    """Block and offset are two fields, and a process can die between them; this also covers a process that continues
    after such a death.
    """
    positions: set[int] = set()
    for seed in range(200):
        disk = SimulatedFileSystem(seed=seed)
        log = Log.open("/log", version=1, block_size=4096, filesystem=disk)
        log.append_many([bytes(number) for number in range(0, 1000, 40)])
        reader = log.reader("all", tag="#")
        before = 0
        for after in (23, 9, 21):
            reader.seek(after)
            line = disk.random.randint(1, LINES_OF_A_COMMIT)
            with suppress(PowerCut), LineCutter(disk, line, directory=reader_module.__file__):
                reader.commit()
            killed = disk.after_process_kill(seed)
            reader = Log.open("/log", filesystem=killed).reader("all")
            assert reader.position in (before, after)
            assert reader.tag == "#"
            positions.add(reader.position)
            before, disk = reader.position, killed

    assert positions == {0, 23, 9, 21}


@pytest.mark.parametrize("durability", ["os", "interval:50ms"])
def test_a_power_cut_leaves_a_prefix_of_an_unsynced_version_1_log(durability: str) -> None:
    ends: set[int] = set()
    for seed in range(100):
        disk = SimulatedFileSystem(seed=seed)
        background = SimulatedBackground()
        log = Log.open(
            "/log", version=1, block_size=4096, durability=durability, filesystem=disk, background=background
        )
        for number in range(40):
            log.append(bytes(300), tag=f"{number}")
        assert len(log.inspect().blocks) > 3

        with Log.open("/log", filesystem=disk.after_power_cut(seed)) as recovered:
            messages = recovered.read(0)
            assert recovered.first == 0
            assert [message.number for message in messages] == list(range(recovered.end))
            recovered.verify()
            assert recovered.append(b"more").number == len(messages)
            ends.add(len(messages))

    assert {0, 40} <= ends
    assert len(ends) > 3


def test_a_crash_between_or_within_the_stores_of_a_roll_costs_no_message() -> None:
    """Any part of the first bytes of the new block may be stored. The log opens, and continues."""
    torn = {"power cut": 0, "loss": 0, "kill": 0}
    for seed in range(SEEDS_OF_A_ROLL):
        for line in range(1, LINES_OF_A_ROLL):
            disk = SimulatedFileSystem(seed=seed)
            log = Log.open("/log", filesystem=disk, block_size=4096, max_block_count=2)
            log.append_many([b"one", b"two", b"three"])
            with suppress(PowerCut), LineCutter(disk, line, directory=writer_module.__file__):
                log.retire(before=0, rolls=True)
            if not disk.is_cut:
                break
            killed = disk.after_process_kill()
            is_torn = _has_torn_header(killed)
            torn["kill"] += is_torn
            _check_three(killed)
            # A cut rarely leaves exactly half of a half-stored header.
            for cut_seed in range(CUTS_OF_A_TORN_HEADER if is_torn else 1):
                crash = ("power cut", "loss")[cut_seed % 2]
                after = disk.after_power_cut(cut_seed, same_boot=crash == "loss")
                torn[crash] += _has_torn_header(after)
                _check_three(after)

    assert all(torn.values()), torn


def _has_torn_header(disk: SimulatedFileSystem) -> bool:
    names = [name for name in disk.names("/log") if name.endswith(".block")]
    starts = [disk.open(f"/log/{name}", writable=False).read(0, HEADER_SIZE_MAX) for name in names]
    return any(any(start) and BlockHeader.parse(start) is None for start in starts)


def _check_three(disk: SimulatedFileSystem) -> None:
    with Log.open("/log", filesystem=disk, block_size=4096) as log:
        assert [message.body for message in log.read(0)] == [b"one", b"two", b"three"]
        assert log.append(b"four").number == 3
        log.verify()


def test_a_commit_is_durable_even_if_a_killed_process_left_the_same_position() -> None:
    disk = SimulatedFileSystem()
    log = Log.open("/log", filesystem=disk)
    log.append_many([b"one", b"two", b"three"])
    reader = log.reader("all")
    reader.commit()
    reader.read()
    disk.cut_at_call = disk.calls + 1
    with pytest.raises(PowerCut):
        reader.commit()

    killed = disk.after_process_kill()
    reader = Log.open("/log", filesystem=killed).reader("all")
    reader.read()
    reader.commit()

    for seed in range(20):
        assert Log.open("/log", filesystem=killed.after_power_cut(seed)).reader("all").position == 3
