"""The public functions of a package are still functions after its modules are imported."""

from __future__ import annotations

import importlib

import warren.spark


def test_the_functions_of_spark_are_functions_after_their_modules_are_imported() -> None:
    for module in ("warren.spark.runtime.session", "warren.spark.runtime.java_home", "warren.spark.pipelines.run"):
        importlib.import_module(module)

    assert all(callable(getattr(warren.spark, name)) for name in warren.spark.__all__)
