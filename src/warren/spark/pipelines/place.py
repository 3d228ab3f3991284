"""Where a pipeline reads and writes, and where it keeps what it must remember."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.queue import store_paths
from warren.spark.pipelines.definition import Definition

if TYPE_CHECKING:
    from warren.spark.reach import Reach

STORE_DEFAULT: Final = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlace:
    """The store of a pipeline, as options of format "warren" name it.

    `directory` is that of the store, None for one behind a broker. `told` is what people know it by, and `memory` where
    the pipeline keeps what it must remember.
    """

    options: Mapping[str, str]
    directory: str | None
    told: str
    memory: str

    def reach(self) -> Reach:
        """How the store is reached; BadOption where the file does not say it well."""
        from warren.spark.given import Given
        from warren.spark.store_options import reach_of

        return reach_of(Given({name.lower(): value for name, value in self.options.items()}, 0))

    def checkpoint(self, definition: Definition) -> str:
        """Where the queries note how far they came."""
        if definition.pipeline.checkpoint is not None:
            return definition.located(definition.pipeline.checkpoint)
        return store_paths.pipeline_checkpoint(self.memory)


def place_of(definition: Definition, given: str | os.PathLike[str] | None = None) -> PipelinePlace:
    """The place of a pipeline: the directory that is given, else what the file says, else `data`."""
    if definition.pipeline.servers is not None:
        return _behind_broker(definition, definition.pipeline.servers, given)
    if given is None and definition.pipeline.store is not None:
        store = definition.located(definition.pipeline.store)
    else:
        store = os.path.abspath(os.fspath(given) if given is not None else STORE_DEFAULT)
    memory = store_paths.pipeline_directory(store, definition.name)
    return PipelinePlace(options={"path": store}, directory=store, told=store, memory=memory)


def _behind_broker(definition: Definition, servers: str, given: str | os.PathLike[str] | None) -> PipelinePlace:
    if given is not None:
        reason = f"the store {os.fspath(given)} is named as well, by --store or WARREN_STORE; give one of them"
        raise definition.complaint("pipeline.servers", reason)
    head = definition.pipeline
    options = {
        "servers": servers,
        "user": head.user,
        "passwordFile": head.password_file and definition.located(head.password_file),
        "tls": str(head.tls).lower(),
        "tlsCa": head.tls_ca and definition.located(head.tls_ca),
    }
    # There is no directory of the store: the file's own is where the next run will look.
    memory = store_paths.pipeline_directory(definition.directory, definition.name)
    told = {name: value for name, value in options.items() if value is not None}
    return PipelinePlace(options=told, directory=None, told=servers, memory=memory)
