"""The settings that Warren chooses for a Spark session on a given master, unless the user sets them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from warren.errors import BadInput
from warren.spark.runtime.machine import cores, driver_memory, memory_bytes

CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
STATE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOG_SETTINGS: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "log4j2.properties")
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
LOOPBACK: Final = "127.0.0.1"
LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?|local-cluster\[(\d+),(\d+),\d+\]")

EVERYWHERE: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE,
    "spark.ui.showConsoleProgress": "false",
}


def settings_for(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Returns all settings of a new session on `master`: those in `conf`, and Warren's choice for the others."""
    conf = checked(conf)
    chosen = {**EVERYWHERE, **(_on_this_machine(master) if is_local(master) else {}), **conf, "spark.master": master}
    options = _log_options()
    if options and options not in conf.get(JAVA_OPTIONS, ""):
        chosen[JAVA_OPTIONS] = f"{options} {conf.get(JAVA_OPTIONS, '')}".strip()
    return chosen


def checked(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy of `conf`. Raises BadInput if a name cannot be that of a Spark setting."""
    for name in conf:
        if not name.startswith("spark."):
            raise BadInput(f"{name!r} is not a setting of Spark: their names start with 'spark.'")
    return dict(conf)


def is_local(master: str) -> bool:
    """Returns whether all of Spark runs on this machine, with the Python and the files of this process."""
    return LOCAL.fullmatch(master) is not None


def threads(master: str) -> int:
    """Returns how many tasks a local `master` runs at the same time."""
    match = LOCAL.fullmatch(master)
    assert match is not None
    if match[2]:
        return int(match[2]) * int(match[3])
    return cores() if match[1] == "*" else int(match[1] or 1)


def _on_this_machine(master: str) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": f"{driver_memory(memory_bytes()) >> 20}m",
        "spark.sql.shuffle.partitions": str(threads(master)),
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.ui.enabled": "false",
    }


def _log_options() -> str:
    """Returns the option that makes the JVM quiet; empty in a shipped zip, which does not contain that file."""
    return f'-Dlog4j2.configurationFile="{LOG_SETTINGS}"' if os.path.exists(LOG_SETTINGS) else ""
