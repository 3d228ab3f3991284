"""Run the benchmarks on Spark: `python -m benchmarks.spark [--quick] [--only NAME] [--json PATH]`."""

from __future__ import annotations

import sys

from benchmarks.running import main
from benchmarks.spark.contests import CONTESTS

if __name__ == "__main__":
    sys.exit(main("benchmarks.spark", CONTESTS, "spark.json"))
