"""The steps of a pipeline, applied one after another: SQL over views, watermarks, dedupe, and Python functions."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from warren.spark.pipelines.definition import Definition, Step

INPUT: Final = "input"
"""The view of the rows of the previous step."""
TIME: Final = "timestamp"
"""The column with the time that `within` compares."""


def transformed(frame: DataFrame, definition: Definition) -> DataFrame:
    """Returns the rows after all steps. Raises BadPipeline, which names the step, if Spark refuses one."""
    spark = frame.sparkSession
    names = [INPUT, *(step.name for step in definition.steps if step.name)]
    with views_kept(spark, names):
        for number, step in enumerate(definition.steps, 1):
            place = f"step {number}"
            try:
                frame = _applied(frame, step, definition, place)
            except PySparkException as error:
                raise definition.complaint(place, sentence(error)) from error
            if step.name:
                frame.createOrReplaceTempView(step.name)
    return frame


def _applied(frame: DataFrame, step: Step, definition: Definition, place: str) -> DataFrame:
    if step.watermark is not None:
        frame = frame.withWatermark(*step.watermark)
    if step.sql is not None:
        frame.createOrReplaceTempView(INPUT)
        return frame.sparkSession.sql(step.sql)
    if step.dedupe is not None:
        timed = frame if step.within is None else frame.withWatermark(TIME, step.within)
        return timed.dropDuplicatesWithinWatermark(list(step.dedupe))
    if step.python is not None:
        return _called(frame, step.python, definition, f"{place}.python")
    return frame


def _called(frame: DataFrame, entry: tuple[str, str], definition: Definition, place: str) -> DataFrame:
    module, name = entry
    function = getattr(_imported(module, definition, place), name, None)
    if not callable(function):
        raise definition.complaint(place, f"module {module!r} has no function {name!r}")
    result = function(frame)
    if not isinstance(result, DataFrame):
        raise definition.complaint(place, f"{module}:{name} returned {type(result).__name__}, not a DataFrame")
    return result


def _imported(name: str, definition: Definition, place: str) -> ModuleType:
    with importable(definition.directory):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            directory = definition.directory
            raise definition.complaint(
                place, f"{error.msg}; modules are imported from {directory}, or must be installed"
            ) from error
    if os.path.abspath(getattr(module, "__file__", None) or "").startswith(definition.directory + os.sep):
        # Workers do not have this directory, so the code of the module is sent with the functions that use it.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


@contextmanager
def importable(directory: str) -> Iterator[None]:
    """Lets modules be imported from `directory` first, inside the `with`."""
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(directory)


@contextmanager
def views_kept(spark: SparkSession, names: list[str]) -> Iterator[None]:
    """Restores the views with these names at the end of the `with`, because the block may replace them."""
    before = {name: spark.table(name) for name in names if _is_view(spark, name)}
    try:
        yield
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
        for name, frame in before.items():
            frame.createOrReplaceTempView(name)


def _is_view(spark: SparkSession, name: str) -> bool:
    try:
        return bool(spark.catalog.getTable(name).isTemporary)
    except AnalysisException:
        return False


def sentence(error: PySparkException) -> str:
    """Returns the message of an error of Spark without the plan, the SQL state and the name of the error class."""
    text = error.getMessage() or str(error)
    text = text.partition("== SQL")[0].partition(" SQLSTATE")[0].strip()
    head, bracket, rest = text.partition("] ")
    return (rest if head.startswith("[") and bracket else text).strip().rstrip(".").replace("\n", " ")
