"""Cuts the power on simulated disks until stopped: `python -m tests.crash.forever [--seed N] [--seconds S]`.

After each life of a log some runs of the replication simulation follow, with their own seeds.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from tests.crash.life import Life, LifeFailed
from tests.crash.replication.run import Run, RunFailed

CUTS_PER_LIFE = 50
RUNS_PER_LIFE = 20
"""They take about as long as a life."""


def main() -> int:
    """Returns 0 when stopped or out of time; 1 at the first broken promise, with the seed that repeats it."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.forever", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbits(31), help="the first life's seed; the next ones follow"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--lives", type=int, default=sys.maxsize, help="stop after so many lives of a log")
    parser.add_argument("--replication", action="store_true", help="simulate replication between the lives")
    options = parser.parse_args()
    try:
        return _run(options.seed, options.seconds, options.lives, replicates=options.replication)
    except KeyboardInterrupt:
        _say("\n")
        return 0


def _run(first_seed: int, seconds: float, lives: int, *, replicates: bool) -> int:
    started, cuts, failovers = time.monotonic(), 0, 0
    for seed in range(first_seed, first_seed + lives):
        elapsed = time.monotonic() - started
        if elapsed > seconds:
            break
        life = Life(seed)
        try:
            life.run(CUTS_PER_LIFE)
            if replicates:
                seeds = range(seed * RUNS_PER_LIFE, (seed + 1) * RUNS_PER_LIFE)
                failovers += sum(Run(each).run()["promotion"] for each in seeds)
        except (LifeFailed, RunFailed) as error:
            _say(f"\n{error}\n")
            return 1
        cuts += life.world.loss_count
        elapsed = time.monotonic() - started
        _say(f"\rseed {seed}: {cuts:,} power cuts, {cuts / elapsed:,.0f} a second, {failovers:,} fail-overs ")
    _say("\n")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
