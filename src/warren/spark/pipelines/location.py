"""Where a pipeline reads and writes, and where it stores its state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.queue.state import paths
from warren.spark.pipelines.definition import Definition

if TYPE_CHECKING:
    from warren.spark.store_access.access import StoreAccess

STORE_DEFAULT: Final = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLocation:
    """The store of a pipeline, as options of format "warren" name it.

    `directory` is that of the store, None for a store behind a broker. `store_name` is its name in messages, and
    `memory` the directory in which the pipeline stores its state.
    """

    options: Mapping[str, str]
    directory: str | None
    store_name: str
    memory: str

    def access(self) -> StoreAccess:
        """Returns the access to the store. Raises BadOption if a key of the file cannot be used."""
        from warren.spark.store_access.options import STORE_OPTIONS, access_of
        from warren.spark.store_access.raw_options import RawOptions

        return access_of(RawOptions.of(STORE_OPTIONS, self.options))

    def checkpoint(self, definition: Definition) -> str:
        """Returns the directory in which Spark stores the progress of the queries."""
        if definition.pipeline.checkpoint is not None:
            return definition.located(definition.pipeline.checkpoint)
        return paths.pipeline_checkpoint(self.memory)


def location_of(definition: Definition, store: str | os.PathLike[str] | None = None) -> PipelineLocation:
    """Returns the location of a pipeline: the directory `store` if it is set, otherwise that of the file, otherwise
    `data`.
    """
    if definition.pipeline.servers is not None:
        return _behind_broker(definition, definition.pipeline.servers, store)
    if store is None and definition.pipeline.store is not None:
        directory = definition.located(definition.pipeline.store)
    else:
        directory = os.path.abspath(os.fspath(store) if store is not None else STORE_DEFAULT)
    memory = paths.pipeline_directory(directory, definition.name)
    return PipelineLocation(options={"path": directory}, directory=directory, store_name=directory, memory=memory)


def _behind_broker(definition: Definition, servers: str, store: str | os.PathLike[str] | None) -> PipelineLocation:
    if store is not None:
        reason = f"the store {os.fspath(store)} is also named, by --store or WARREN_STORE; set only one of them"
        raise definition.complaint("pipeline.servers", reason)
    head = definition.pipeline
    options = {
        "servers": servers,
        "rack": head.rack,
        "user": head.user,
        "passwordFile": head.password_file and definition.located(head.password_file),
        "tls": str(head.tls).lower(),
        "tlsCa": head.tls_ca and definition.located(head.tls_ca),
    }
    # The store has no directory on this machine, so the state is stored next to the file, where the next run finds it.
    memory = paths.pipeline_directory(definition.directory, definition.name)
    named = {name: value for name, value in options.items() if value is not None}
    return PipelineLocation(options=named, directory=None, store_name=servers, memory=memory)
