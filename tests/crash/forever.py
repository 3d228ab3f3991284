"""Cuts the power on simulated disks until stopped: `python -m tests.crash.forever [--seed N] [--seconds S]`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from tests.crash.life import Life, LifeFailed

CUTS_PER_LIFE = 50


def main() -> int:
    """0 when stopped or out of time; 1 at the first broken promise, with the seed that shows it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.forever", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbits(31), help="the first life's seed; the next ones follow"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--lives", type=int, default=sys.maxsize, help="stop after so many lives of a log")
    options = parser.parse_args()
    try:
        return _run(options.seed, options.seconds, options.lives)
    except KeyboardInterrupt:
        _say("\n")
        return 0


def _run(first_seed: int, seconds: float, lives: int) -> int:
    started, cuts = time.monotonic(), 0
    for seed in range(first_seed, first_seed + lives):
        elapsed = time.monotonic() - started
        if elapsed > seconds:
            break
        life = Life(seed)
        try:
            life.run(CUTS_PER_LIFE)
        except LifeFailed as error:
            _say(f"\n{error}\n")
            return 1
        cuts += life.world.loss_count
        elapsed = time.monotonic() - started
        _say(f"\rseed {seed}: {cuts:,} power cuts, {cuts / elapsed:,.0f} a second ")
    _say("\n")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
