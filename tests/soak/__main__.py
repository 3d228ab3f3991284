"""`python -m tests.soak [--kills N] [--seed N]`: the long run; exits 1 where something was wrong."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.soak.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--dir", type=Path, default=None, help="where the store lies; kept where it is given")
    arguments = parser.parse_args()
    console = Console()
    console.print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="warren-soak-") as temporary, Progress(console=console) as progress:
        directory = arguments.dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        task = progress.add_task("kills", total=arguments.kills)
        outcome = run(directory, arguments.kills, arguments.seed, lambda kills: progress.update(task, completed=kills))
        for path in sorted(directory.glob("*.error")):
            console.print(path.name, path.read_text(), markup=False)
    for fault in outcome.faults:
        console.print(f"[red]{fault.kind}[/]: {fault.detail}")
    console.print(
        f"{outcome.kills} kills, {outcome.messages} messages, {outcome.events} events, {len(outcome.faults)} faults"
    )
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
