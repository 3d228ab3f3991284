"""Run the benchmarks: `python -m benchmarks [--quick] [--only NAME] [--json PATH]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from benchmarks import appends, commits, delays, lookups, memory, opens, queues, reads, rivals, scans, space, waits
from benchmarks.running import main
from benchmarks.workspace import Contest

FAMILIES: Final = (appends, reads, scans, lookups, opens, commits, rivals, space, waits, queues, delays, memory)
CONTESTS: Final[Sequence[Contest]] = [contest for family in FAMILIES for contest in family.CONTESTS]

if __name__ == "__main__":
    sys.exit(main("benchmarks", CONTESTS, "latest.json"))
