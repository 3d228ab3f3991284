"""The class path of a ZooKeeper server: the jars of the installed PySpark, or of another directory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from warren.errors import BadInput, ClusterMissing, JarsMissing

SERVER_JARS: Final = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    # Without this jar the server dies when it starts.
    "metrics-core",
    # Without this jar the server listens but never serves, because it cannot write its first snapshot.
    "snappy-java",
)
LOG_JARS: Final = ("log4j-api", "log4j-core", "log4j-slf4j2-impl")
"""Without these jars the server logs nothing, not even why it fails."""
TLS_JARS: Final = (
    "netty-buffer",
    "netty-codec",
    "netty-codec-base",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)
"""Connections with TLS, of clients and between servers, need netty."""


def class_path(directory: str | None = None, *, is_tls: bool = False) -> list[str]:
    """Returns the jars of a server, from `directory` or from the installed PySpark.

    If some are missing, raises JarsMissing, which names all of them.
    """
    place = jars_directory() if directory is None else directory
    try:
        files = os.listdir(place)
    except OSError as error:
        raise BadInput(f"{place}: {error.strerror}") from None
    names = [*SERVER_JARS, *LOG_JARS, *(TLS_JARS if is_tls else ())]
    jars = {name: newest_jar(name, files) for name in names}
    missing = [f"{name}-*.jar" for name, jar in jars.items() if jar is None]
    if missing:
        raise JarsMissing(place, missing)
    return [os.path.abspath(os.path.join(place, jar)) for jar in jars.values() if jar is not None]


def jars_directory() -> str:
    """Returns the directory of PySpark's jars, without importing PySpark. Raises ClusterMissing if there is none."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ClusterMissing(["pyspark"])
    return os.path.join(spec.submodule_search_locations[0], "jars")


def newest_jar(name: str, files: Sequence[str]) -> str | None:
    """Returns the file of the newest version of a jar, or None if there is none."""
    pattern = re.compile(rf"{re.escape(name)}-(\d[\w.]*)\.jar")
    versions = [(_version(match[1]), file) for file in files if (match := pattern.fullmatch(file))]
    return max(versions)[1] if versions else None


def _version(text: str) -> list[int]:
    """Returns the numbers of a version, so that 3.10 comes after 3.9."""
    return [int(number) for number in re.findall(r"\d+", text)]
