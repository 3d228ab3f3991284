"""Warren on Spark: a store as a table and a stream, and pipelines. PySpark is imported when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warren.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from warren.spark.pipelines.definition import Definition
    from warren.spark.pipelines.run import Running

__all__ = ["pipeline", "session", "use_java"]


def session(app_name: str = "warren", master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a SparkSession tuned for Warren. If this process has a session, returns that one, with `conf` set on it.

    Without `master`, uses the master of spark-submit, or else as many cores of this machine as this process may use.
    `sc://host:port` connects to a Spark Connect server; the setting `spark.api.mode=connect` starts one on this
    machine. The settings in `conf` and those of spark-submit take precedence over Warren's choices. Sets JAVA_HOME in
    the environment of this process to a Java that Spark can start, and PYSPARK_PYTHON to this Python if Spark runs on
    this machine. Raises SparkMissing if PySpark is not installed.
    """
    try:
        from warren.spark.runtime.session import start
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise SparkMissing from error
    return start(app_name, master, conf or {})


def use_java() -> str:
    """Sets JAVA_HOME, for this process and those that it starts, to a Java that Spark can start, and returns it.

    `session` calls it automatically. Other ways to start Spark need it if Java was installed with pip.
    """
    from warren.spark.runtime.java_home import use_java

    return use_java(os.environ)


def pipeline(
    spark: SparkSession,
    definition: Definition | Mapping[str, Any] | str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
) -> Running:
    """Starts a pipeline and returns it; it has a `query`, and the methods `progress()`, `wait()` and `stop()`.

    `definition` is a pipeline file, or a dict with the content of one. `store` takes precedence over that of the file.
    """
    from warren.spark.pipelines.run import start

    return start(spark, definition, store=store)
