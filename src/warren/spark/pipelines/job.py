"""The program that spark-submit runs: runs the pipeline of a shipped file on the session of spark-submit."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from pyspark import SparkFiles

import warren.spark
from warren.errors import WarrenError
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.progress import Progress
from warren.spark.pipelines.run import start
from warren.spark.pipelines.watch import attend

LOGGER: Final = logging.getLogger("warren.pipeline")
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


class LogLines:
    """Writes the progress of a pipeline to the log of the driver, because there is no terminal."""

    def progress(self, progress: Progress) -> None:
        LOGGER.info("%s", progress.to_json())

    def stopping(self) -> None:
        LOGGER.info("will stop after the running batch")


def run(arguments: Sequence[str]) -> int:
    """Runs the pipeline that the arguments name, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the name of the shipped pipeline file")
    parser.add_argument("--store", help="the directory of the store; none if the file names a broker")
    parser.add_argument("--trigger", required=True)
    parser.add_argument("--directory", required=True, help="the directory to which paths in the file are relative")
    parsed = parser.parse_args(arguments)
    session = warren.spark.session("warren pipeline")
    try:
        # Shipped files, modules included, are in one directory on every machine.
        shipped = Definition.read(os.path.join(SparkFiles.getRootDirectory(), parsed.file))
        definition = dataclasses.replace(shipped.triggered(parsed.trigger), directory=parsed.directory)
        running = start(session, definition, store=parsed.store)
        is_done = attend(running, LogLines())
    except WarrenError as error:
        LOGGER.error("%s", error)
        return EXIT_FAILED
    finally:
        session.stop()
    return 0 if is_done or definition.is_endless else EXIT_INTERRUPTED


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    sys.exit(run(sys.argv[1:]))
