"""What a program that runs Spark said on stderr, without what no setting of Spark's turns off."""

from __future__ import annotations

import re
from typing import Final

LEFT_BY_SPARK: Final = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'(?:  File "[^"\n]*/pyspark/daemon\.py".*\n(?:    .*\n)*)+'
    r"BrokenPipeError: .*\n"
)
"""A worker of PySpark's whose JVM stopped first, which happens now and then where a query or Spark is stopped."""


def complaints(stderr: str) -> str:
    """What there is to complain about; empty where all is well."""
    return LEFT_BY_SPARK.sub("", stderr)
