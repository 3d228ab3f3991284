"""Starts a SparkSession with packages from pip only, or returns the running one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from warren.spark.runtime.java_home import use_java
from warren.spark.runtime.jvm_stderr import without_worker_noise
from warren.spark.runtime.machine import cores
from warren.spark.runtime.tuning import checked, is_local, settings_for

CONNECT: Final = "sc://"


def start(app_name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Returns the session of this process with `conf` set on it; starts one if none runs."""
    builder = SparkSession.builder.appName(app_name)
    if master is not None and master.startswith(CONNECT):
        # The server has its own Java and settings; only the settings of the query are ours.
        settings = {**checked(conf), "spark.remote": master}
    elif SparkContext._active_spark_context is not None:
        settings = checked(conf)
    else:
        submitted = _submitted()
        if SparkContext._gateway is None:
            use_java(os.environ)
        user_conf = submitted | checked(conf)
        master_url = master or user_conf.get("spark.master") or f"local[{cores()}]"
        if is_local(master_url):
            # Workers with another Python would not have the packages of this one.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = settings_for(master_url, user_conf)
    for name, value in settings.items():
        builder = builder.config(name, value)
    starts_jvm = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    with warnings.catch_warnings(), without_worker_noise() if starts_jvm else nullcontext():
        # A local Connect server gets every setting when it starts; its client then sends them again, without effect.
        warnings.filterwarnings("ignore", r"Failed to set spark\.", UserWarning)
        return builder.getOrCreate()


def _submitted() -> dict[str, str]:
    """Returns the settings of spark-submit, if it started this process. They take precedence over Warren's choices."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
