"""A JAVA_HOME for Spark: a script around any Java that drops the arguments of Spark which that Java may not know."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from warren.errors import JavaUnusable
from warren.java import Java, find_java

MARK: Final = "# Made by Warren: Spark asks every Java for modules and packages that this one may not have."
WITHOUT_VECTORS: Final = "--add-modules=jdk.incubator.vector"
"""Small runtimes do not start with it, and others report it on stderr. Only MLlib gains from it."""
WITHOUT_ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
"""Names a package that version 25 has removed; it warns on stderr if it gets this argument."""
ACTIONS_VERSION_MAX: Final = 24
SCRIPT: Final = """\
#!/bin/sh
{mark}
for argument do
    shift
    case $argument in
        {dropped}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def use_java(environment: MutableMapping[str, str]) -> str:
    """Sets JAVA_HOME in `environment` to a Java that Spark can start, and returns it."""
    environment["JAVA_HOME"] = java_home(find_java(environment), environment)
    return environment["JAVA_HOME"]


def java_home(java: Java, environment: Mapping[str, str]) -> str:
    """Returns a directory whose `bin/java` starts `java` without those arguments. All processes of the user share it.

    It is in the user's cache, or below the temporary directory if nothing can be written or run in the cache. Raises
    JavaUnusable if neither can be used.
    """
    home = os.path.dirname(os.path.dirname(java.executable))
    if is_java_home_of_ours(home):
        return home
    dropped = [WITHOUT_VECTORS, *([WITHOUT_ACTIONS] if java.version > ACTIONS_VERSION_MAX else [])]
    script = SCRIPT.format(mark=MARK, dropped=" | ".join(dropped), java=shlex.quote(java.executable))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    refused: list[str] = []
    for cache in _caches(environment):
        try:
            made = _made(cache / name, script)
        except OSError as error:
            refused.append(f"{cache} cannot be used: {error.strerror or error}")
            continue
        if made is not None:
            return made
        refused.append(f"{cache} does not let programs run")
    raise JavaUnusable(java.executable, refused)


def is_java_home_of_ours(home: str) -> bool:
    """Returns whether `java_home` created this directory."""
    try:
        with open(os.path.join(home, "bin", "java"), "rb") as file:
            return MARK.encode() in file.read(len(MARK) + 16)
    except OSError:
        return False


def _caches(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("XDG_CACHE_HOME"):
        yield Path(environment["XDG_CACHE_HOME"]) / "warren"
    elif environment.get("HOME"):
        yield Path(environment["HOME"]) / ".cache" / "warren"
    yield Path(environment.get("TMPDIR") or tempfile.gettempdir()) / f"warren-{os.getuid()}"


def _made(home: Path, script: str) -> str | None:
    """Creates `home` with `script` in it if it does not exist. Returns None if no program can be run from there."""
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(home.parent)
    java = home / "bin" / "java"
    if not java.exists():
        _make(home, script)
    return str(home) if os.access(java, os.X_OK) else None


def _check_private(cache: Path) -> None:
    """Raises PermissionError if other users could have written to the directory, because its files will be run."""
    status = cache.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(None, "other users may write to it")


def _make(home: Path, script: str) -> None:
    """Creates `home` under another name and renames it, so that no other process sees a part of it."""
    aside = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{home.name}."))
    try:
        (aside / "bin").mkdir()
        java = aside / "bin" / "java"
        java.write_text(script)
        java.chmod(0o755)
        aside.rename(home)
    except OSError:
        # If another process was first, the directory exists and is not empty.
        if not (home / "bin" / "java").exists():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
