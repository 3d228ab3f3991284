"""Quantiles of durations, from counts in buckets that grow with the value. Counts can be added in any order."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

STATS_ERROR_MAX: Final = 0.01
"""The largest relative error of a quantile."""


GROWTH: Final = (1 + STATS_ERROR_MAX) / (1 - STATS_ERROR_MAX)
BUCKETS_MAX: Final = 2 + math.ceil(63 * math.log(2) / math.log(GROWTH))
"""Bucket 0 has values below 1 µs; bucket b has those below GROWTH ** b µs that are in no bucket before it."""
DENSE_RUNS_MAX: Final = 64

Buckets = Counter[int]


def buckets_of(values_us: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Returns the bucket of each value. Negative values count as 0; clocks that differ cause them."""
    clipped = np.maximum(values_us, 1).astype(np.float64)
    buckets: npt.NDArray[np.int64] = np.floor(np.log(clipped) / math.log(GROWTH)).astype(np.int64) + 1
    buckets[values_us < 1] = 0
    return buckets


def counted(runs: npt.NDArray[np.intp], values_us: npt.NDArray[Any], run_count: int) -> list[Buckets]:
    """Returns, for each run, how many values are in which bucket. `runs` holds the run of each value."""
    keys = runs * BUCKETS_MAX + buckets_of(values_us)
    if run_count <= DENSE_RUNS_MAX:
        counts = np.bincount(keys, minlength=0)
        present = np.flatnonzero(counts)
        counts = counts[present]
    else:
        present, counts = np.unique(keys, return_counts=True)
    each: list[Buckets] = [Counter() for _ in range(run_count)]
    for key, count in zip(present.tolist(), counts.tolist(), strict=True):
        each[key // BUCKETS_MAX][key % BUCKETS_MAX] += count
    return each


def quantile_us(buckets: Buckets, share: float) -> float | None:
    """Returns the value below which this share of all lies, within STATS_ERROR_MAX; None if there are no values."""
    rank, count = share * (buckets.total() - 1), 0
    for bucket in sorted(buckets):
        count += buckets[bucket]
        if count > rank:
            return 0.0 if bucket == 0 else 2 * GROWTH**bucket / (GROWTH + 1)
    return None
