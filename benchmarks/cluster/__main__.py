"""Run the benchmarks of a cluster: `python -m benchmarks.cluster [--quick] [--only NAME] [--runs N] [--json PATH]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benchmarks.broker.versions import facts
from benchmarks.cluster import catch_ups, fail_overs, promotions, puts
from benchmarks.running import Document, main

FAMILIES: Final = (fail_overs, puts, catch_ups, promotions)
CONTESTS: Final = [contest for family in FAMILIES for contest in family.CONTESTS]
IN_DOCS: Final = Document(Path(__file__).parents[2] / "docs" / "performance.md", "--write-docs")

if __name__ == "__main__":
    sys.exit(
        main(
            "benchmarks.cluster",
            CONTESTS,
            "cluster.json",
            document=IN_DOCS,
            facts=facts,
            has_runs=True,
            fails_below_bars=True,
        )
    )
