"""Measuring: contestants take turns within one run, and the best of each counts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any, Final, NamedTuple

PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, the best of its samples. `unit` is "/s", "s", "B" or a word; `facts` has
    further measurements.
    """

    name: str
    value: float
    unit: str
    samples: Sequence[float] = ()
    facts: Mapping[str, float | int | str] = field(default_factory=dict)

    def __str__(self) -> str:
        for factor, prefix in PREFIXES:
            if self.value >= factor and (self.unit in ("s", "/s") or factor >= 1):
                text = f"{self.value / factor:.3g}" if self.value < 1000 * factor else f"{self.value / factor:.0f}"
                return f"{text} {prefix}{self.unit}"
        return f"{self.value:.3g} {self.unit}"


class Bar(NamedTuple):
    """The value that a ratio has to reach."""

    limit: float
    is_ceiling: bool

    def is_reached(self, ratio: float) -> bool:
        return ratio <= self.limit if self.is_ceiling else ratio >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.is_ceiling else '≥'} {self.limit:g}"


def at_least(limit: float) -> Bar:
    return Bar(limit, is_ceiling=False)


def at_most(limit: float) -> Bar:
    return Bar(limit, is_ceiling=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: `measured` over `baseline`. Without a bar it is for information."""

    name: str
    what: str
    baseline: Figure
    measured: Figure
    bar: Bar | None = None

    @property
    def ratio(self) -> float:
        return self.measured.value / self.baseline.value

    @property
    def is_reached(self) -> bool | None:
        return self.bar.is_reached(self.ratio) if self.bar is not None else None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "baseline": asdict(self.baseline),
            "measured": asdict(self.measured),
            "ratio": self.ratio,
            "bar": str(self.bar) if self.bar is not None else None,
            "reached": self.is_reached,
        }


class NotMeasured(Exception):
    """This machine cannot measure it: something is not installed, or there is no room."""


class Contestant(NamedTuple):
    """`run` does something `repeats` times and returns the seconds that it took, without its preparations."""

    name: str
    repeats: int
    run: Callable[[], float]


def rates(
    contestants: Sequence[Contestant], rounds: int, pick: Callable[[Sequence[float]], float] = min
) -> list[Figure]:
    """Returns how many per second each contestant does: at best, or in the round that `pick` chooses by its seconds."""
    seconds = _take_turns([contestant.run for contestant in contestants], rounds)
    return [
        Figure(
            name=contestant.name,
            value=contestant.repeats / pick(samples),
            unit="/s",
            samples=[contestant.repeats / one for one in samples],
            facts={"count": contestant.repeats},
        )
        for contestant, samples in zip(contestants, seconds, strict=True)
    ]


def times(
    contestants: Sequence[Contestant], rounds: int, pick: Callable[[Sequence[float]], float] = min
) -> list[Figure]:
    """Returns how long each contestant takes for one: at best, or in the round that `pick` chooses."""
    seconds = _take_turns([contestant.run for contestant in contestants], rounds)
    return [
        Figure(
            name=contestant.name,
            value=pick(samples) / contestant.repeats,
            unit="s",
            samples=[one / contestant.repeats for one in samples],
            facts={"count": contestant.repeats},
        )
        for contestant, samples in zip(contestants, seconds, strict=True)
    ]


def _take_turns(runs: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Returns the seconds of each run, round by round: a disturbance of the machine affects all of them."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, samples in zip(runs, seconds, strict=True):
            gc.collect()
            samples.append(run())
    return seconds


class Caller(NamedTuple):
    """Something that is called with one number after another."""

    name: str
    call: Callable[[int], object]
    numbers: Sequence[int]


class Latency(NamedTuple):
    """Calls per second over a whole loop, and the median seconds of a call, each call timed by itself."""

    rate: Figure
    median: Figure


def latencies(callers: Sequence[Caller], rounds: int) -> list[Latency]:
    """The best rate and the best median of each caller."""
    loops = [_looped(caller) for caller in callers]
    singles = [_timed_one_by_one(caller) for caller in callers]
    seconds = _take_turns([run for pair in zip(loops, singles, strict=True) for run in pair], rounds)
    result = []
    for caller, whole, middle in zip(callers, seconds[::2], seconds[1::2], strict=True):
        count = len(caller.numbers)
        rate = Figure(
            name=caller.name,
            value=count / min(whole),
            unit="/s",
            samples=[count / one for one in whole],
            facts={"count": count},
        )
        result.append(Latency(rate, Figure(name=caller.name, value=min(middle), unit="s", samples=middle)))
    return result


def _looped(caller: Caller) -> Callable[[], float]:
    def run() -> float:
        call = caller.call
        start = perf_counter()
        for number in caller.numbers:
            call(number)
        return perf_counter() - start

    return run


def _timed_one_by_one(caller: Caller) -> Callable[[], float]:
    def run() -> float:
        call, samples = caller.call, []
        for number in caller.numbers:
            start = perf_counter_ns()
            call(number)
            samples.append(perf_counter_ns() - start)
        return median(samples) / 1e9

    return run
