"""`python -m tests.fuzz [--seed N] [--rounds N]`: attacks on a broker until stopped; exits 1 at the first fault."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from tests.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the first run")
    parser.add_argument("--rounds", type=int, default=2000, help="attacks in one run, before the store is looked at")
    parser.add_argument("--runs", type=int, default=None, help="so many runs, and no more")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    for number in itertools.count() if arguments.runs is None else range(arguments.runs):
        seed = arguments.seed + number
        with tempfile.TemporaryDirectory(prefix="warren-fuzz-") as directory:
            outcome = fuzz(Path(directory), seed, rounds=arguments.rounds, is_secured=bool(number % 2))
        console.print(
            f"seed {seed}: {outcome.requests:,} requests in {outcome.attacks.total():,} attacks, "
            f"{outcome.witnessed:,} puts of another client; memory {outcome.last.resident >> 20} MB "
            f"(at most {outcome.last.resident_max >> 20}), {outcome.last.files} files; {len(outcome.faults)} faults"
        )
        for fault in outcome.faults:
            console.print(fault, markup=False)
        if outcome.faults:
            return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
