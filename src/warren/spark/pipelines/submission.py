"""A pipeline on a cluster: the spark-submit line that runs it there, and what it ships."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.place import PipelinePlace
from warren.spark.shipping import package_zip, submit_command

PROGRAM: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "submitted.py")
FILES: Final = "spark.files"


def submission(
    definition: Definition, master: str, *, place: PipelinePlace, deploy_mode: str | None, conf: Mapping[str, str]
) -> list[str]:
    """The command. It ships Warren as a zip, made where the pipeline has its memory, the file, and its modules."""
    package = package_zip(place.memory)
    given = [conf[FILES]] if FILES in conf else []
    settings = {**conf, FILES: ",".join([*given, *shipped(definition)])}
    store = [] if place.directory is None else ["--store", place.directory]
    arguments = [os.path.basename(definition.file), *store, "--trigger", definition.pipeline.trigger]
    program = [PROGRAM, *arguments, "--directory", definition.directory]
    return submit_command(program, master, settings, package=package, deploy_mode=deploy_mode)


def shipped(definition: Definition) -> list[str]:
    """The file, and those modules of its steps that stand beside it. Others must be installed on the cluster."""
    named = {step.python[0].partition(".")[0] + ".py" for step in definition.steps if step.python is not None}
    modules = [os.path.join(definition.directory, name) for name in sorted(named)]
    return [os.path.abspath(definition.file), *filter(os.path.isfile, modules)]
