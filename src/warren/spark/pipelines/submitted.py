"""What spark-submit runs: the pipeline of a file that was shipped with it, on the session that it gives."""

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
from warren.spark.pipelines.attendance import attend
from warren.spark.pipelines.definition import Definition
from warren.spark.pipelines.progress import Progress
from warren.spark.pipelines.runner import start

LOGGER: Final = logging.getLogger("warren.pipeline")
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


class LogLines:
    """Tells the log of the driver how far a pipeline came: there is nobody to watch it."""

    def progress(self, progress: Progress) -> None:
        LOGGER.info("%s", progress.to_json())

    def stopping(self) -> None:
        LOGGER.info("stops when the running batch is done")


def run(arguments: Sequence[str]) -> int:
    """Run the pipeline that the arguments name; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the name of the shipped pipeline file")
    parser.add_argument("--store", help="the directory of the store; none where the file names a broker")
    parser.add_argument("--trigger", required=True)
    parser.add_argument("--directory", required=True, help="what paths in the file are relative to")
    given = parser.parse_args(arguments)
    session = warren.spark.session("warren pipeline")
    try:
        # Shipped files lie in one directory on every machine, and so do the modules among them.
        shipped = Definition.read(os.path.join(SparkFiles.getRootDirectory(), given.file))
        definition = dataclasses.replace(shipped.triggered(given.trigger), directory=given.directory)
        running = start(session, definition, store=given.store)
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
