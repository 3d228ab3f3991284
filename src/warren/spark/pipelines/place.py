"""Where a pipeline reads and writes, and where it keeps what it must remember."""

from __future__ import annotations

import os
from typing import Final

from warren.queue import store_paths
from warren.spark.pipelines.definition import Definition

STORE_DEFAULT: Final = "data"


def store_of(definition: Definition, given: str | os.PathLike[str] | None = None) -> str:
    """The directory of the store: what is given, else what the file says, else `data` below the current directory."""
    if given is None and definition.pipeline.store is not None:
        return definition.located(definition.pipeline.store)
    return os.path.abspath(os.fspath(given) if given is not None else STORE_DEFAULT)


def checkpoint_of(definition: Definition, store: str) -> str:
    """Where the queries note how far they came."""
    if definition.pipeline.checkpoint is not None:
        return definition.located(definition.pipeline.checkpoint)
    return store_paths.pipeline_checkpoint(store_paths.pipeline_directory(store, definition.name))
