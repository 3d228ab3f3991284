"""Quantiles of durations from counts in buckets that grow with the value: added up anywhere, in any order."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warren.config import STATS_ERROR_MAX

GROWTH: Final = (1 + STATS_ERROR_MAX) / (1 - STATS_ERROR_MAX)
BUCKETS_MAX: Final = 2 + math.ceil(63 * math.log(2) / math.log(GROWTH))
"""Bucket 0 has what is below 1 µs; bucket b has what is below GROWTH ** b µs and in none before."""
DENSE_RUNS_MAX: Final = 64

Buckets = Counter[int]


def buckets_of(values_us: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The bucket of each value. What is negative, as clocks that differ make it, counts as nothing."""
    clipped = np.maximum(values_us, 1).astype(np.float64)
    found: npt.NDArray[np.int64] = np.floor(np.log(clipped) / math.log(GROWTH)).astype(np.int64) + 1
    found[values_us < 1] = 0
    return found


def counted(runs: npt.NDArray[np.intp], values_us: npt.NDArray[Any], run_count: int) -> list[Buckets]:
    """By run, how many values are in which bucket. `runs` tells to which run a value belongs."""
    keys = runs * BUCKETS_MAX + buckets_of(values_us)
    if run_count <= DENSE_RUNS_MAX:
        counts = np.bincount(keys, minlength=0)
        found = np.flatnonzero(counts)
        counts = counts[found]
    else:
        found, counts = np.unique(keys, return_counts=True)
    each: list[Buckets] = [Counter() for _ in range(run_count)]
    for key, count in zip(found.tolist(), counts.tolist(), strict=True):
        each[key // BUCKETS_MAX][key % BUCKETS_MAX] += count
    return each


def quantile_us(buckets: Buckets, share: float) -> float | None:
    """The value below which this share of all lies, off by STATS_ERROR_MAX at most; None where there are none."""
    rank, seen = share * (buckets.total() - 1), 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen > rank:
            return 0.0 if bucket == 0 else 2 * GROWTH**bucket / (GROWTH + 1)
    return None
