"""The stderr of a program that runs Spark, without the lines that no setting of Spark switches off."""

from __future__ import annotations

import re
from typing import Final

LEFT_BY_SPARK: Final = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'(?:  File "[^"\n]*/pyspark/daemon\.py".*\n(?:    .*\n)*)+'
    r"BrokenPipeError: .*\n"
)
"""Output of a worker of PySpark whose JVM stopped first, which sometimes happens if a query or Spark is stopped."""


def complaints(stderr: str) -> str:
    """Returns the complaints; empty if everything is fine."""
    return LEFT_BY_SPARK.sub("", stderr)
