"""Warren on Spark: a table and a stream for it, and pipelines that run on it. PySpark is imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warren.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from warren.spark.pipelines.definition import Definition
    from warren.spark.pipelines.runner import Running

__all__ = ["pipeline", "session", "use_java"]


def session(app_name: str = "warren", master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A SparkSession tuned for Warren; the one that this process has, with `conf` set on it, where it has one.

    Without a `master` it is the one that spark-submit names, else as many cores of this machine as this process may
    use. `sc://host:port` is a Connect server, and the setting `spark.api.mode=connect` starts one on this machine.
    What `conf` says, and what spark-submit was told, goes before what Warren would choose. JAVA_HOME is set in the
    environment of this process to a Java that Spark can start, and PYSPARK_PYTHON, on this machine, to this Python.
    """
    try:
        from warren.spark.starting import start
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise SparkMissing from error
    return start(app_name, master, conf or {})


def use_java() -> str:
    """Set JAVA_HOME for this process, and those that it starts, to a Java that Spark can start; it is returned.

    `session` does so by itself. Whatever else starts Spark needs it where Java comes from pip.
    """
    from warren.spark.java_home import use_java

    return use_java(os.environ)


def pipeline(
    spark: SparkSession,
    definition: Definition | Mapping[str, Any] | str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
) -> Running:
    """Start a pipeline; what is given back has its `query`, tells its `progress()`, and can `wait()` and `stop()`.

    `definition` is a pipeline file, or what TOML would make of one. `store` goes before the file's own.
    """
    from warren.spark.pipelines.runner import start

    return start(spark, definition, store=store)
