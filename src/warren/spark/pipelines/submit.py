"""Runs a pipeline on a cluster: the spark-submit command, and the files that it ships."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.location import PipelineLocation
from warren.spark.runtime.shipping import package_zip, submit_command

PROGRAM: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "job.py")
FILES: Final = "spark.files"


def submission(
    definition: Definition, master: str, *, location: PipelineLocation, deploy_mode: str | None, conf: Mapping[str, str]
) -> list[str]:
    """Returns the command.

    It ships the file, its modules, and Warren as a zip that is made next to the pipeline's state.
    """
    package = package_zip(location.memory)
    files = [conf[FILES]] if FILES in conf else []
    settings = {**conf, FILES: ",".join([*files, *shipped(definition)])}
    store = [] if location.directory is None else ["--store", location.directory]
    arguments = [os.path.basename(definition.file), *store, "--trigger", definition.pipeline.trigger]
    program = [PROGRAM, *arguments, "--directory", definition.directory]
    return submit_command(program, master, settings, package=package, deploy_mode=deploy_mode)


def shipped(definition: Definition) -> list[str]:
    """Returns the file, and the modules of its steps that are next to it.

    Other modules must be installed on the cluster.
    """
    named = {step.python[0].partition(".")[0] + ".py" for step in definition.steps if step.python is not None}
    modules = [os.path.join(definition.directory, name) for name in sorted(named)]
    return [os.path.abspath(definition.file), *filter(os.path.isfile, modules)]
