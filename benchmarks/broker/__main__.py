"""Run the benchmarks of the broker: `python -m benchmarks.broker [--quick] [--only NAME] [--json PATH]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benchmarks.broker import batches, client, crowds, single
from benchmarks.broker.versions import facts
from benchmarks.running import Document, main

FAMILIES: Final = (batches, client, single, crowds)
CONTESTS: Final = [contest for family in FAMILIES for contest in family.CONTESTS]
IN_DOCS: Final = Document(Path(__file__).parents[2] / "docs" / "performance.md", "--write-docs")

if __name__ == "__main__":
    sys.exit(main("benchmarks.broker", CONTESTS, "broker.json", document=IN_DOCS, facts=facts))
