"""A public function is not hidden by a module of the same name: importing such a module would replace the function."""

from __future__ import annotations

import ast
import importlib

import warren.spark
from tests.tidy.source import PACKAGE, SOURCE, modules


def test_the_functions_of_spark_are_functions_after_their_modules_are_imported() -> None:
    for module in ("warren.spark.runtime.session", "warren.spark.runtime.java_home", "warren.spark.pipelines.run"):
        importlib.import_module(module)

    assert all(callable(getattr(warren.spark, name)) for name in warren.spark.__all__)


def test_no_package_defines_a_name_that_one_of_its_modules_has() -> None:
    every = modules(PACKAGE, SOURCE)
    names = {module.name for module in every}
    hidden = [
        f"{package.name}.{node.name}"
        for package in every
        if package.is_package
        for node in package.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and f"{package.name}.{node.name}" in names
    ]

    assert hidden == []
