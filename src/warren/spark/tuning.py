"""What Warren chooses for a Spark session on a given master, where nobody says otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from warren.errors import BadInput
from warren.spark.machine import cores, driver_memory, memory_bytes

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


def settings_for(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a new session on `master`: those that were `given`, and Warren's choice for the others."""
    given = checked(given)
    chosen = {**EVERYWHERE, **(_on_this_machine(master) if is_local(master) else {}), **given, "spark.master": master}
    options = _log_options()
    if options and options not in given.get(JAVA_OPTIONS, ""):
        chosen[JAVA_OPTIONS] = f"{options} {given.get(JAVA_OPTIONS, '')}".strip()
    return chosen


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """`given` as it is. BadInput for a name that cannot be one of Spark's."""
    for name in given:
        if not name.startswith("spark."):
            raise BadInput(f"{name!r} is no setting of Spark's: their names start with 'spark.'")
    return dict(given)


def is_local(master: str) -> bool:
    """Whether everything runs on this machine, with the Python and the files that this process sees."""
    return LOCAL.fullmatch(master) is not None


def threads(master: str) -> int:
    """How many tasks a local `master` runs at once."""
    found = LOCAL.fullmatch(master)
    assert found is not None
    if found[2]:
        return int(found[2]) * int(found[3])
    return cores() if found[1] == "*" else int(found[1] or 1)


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
    """What makes the JVM quiet. In a zip that was shipped to a cluster there is no such file, and Spark's own holds."""
    return f'-Dlog4j2.configurationFile="{LOG_SETTINGS}"' if os.path.exists(LOG_SETTINGS) else ""
