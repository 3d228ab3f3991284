"""The class path of a server: jars found by their names, and a sentence that names the missing ones."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from warren.errors import BadInput, ClusterMissing, JarsMissing
from warren.registry import class_path as module
from warren.registry.class_path import LOG_JARS, SERVER_JARS, TLS_JARS, class_path, newest_jar


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / f"{name}-1.2.3.jar").touch()
    return folder


def test_every_jar_that_a_server_needs_is_in_the_class_path(tmp_path: Path) -> None:
    fill(tmp_path, *SERVER_JARS, *LOG_JARS, *TLS_JARS, "hadoop-client")

    assert [Path(jar).name for jar in class_path(str(tmp_path))] == [
        f"{name}-1.2.3.jar" for name in (*SERVER_JARS, *LOG_JARS)
    ]
    assert len(class_path(str(tmp_path), is_tls=True)) == len(SERVER_JARS) + len(LOG_JARS) + len(TLS_JARS)


@pytest.mark.parametrize("missing", [*SERVER_JARS, *LOG_JARS])
def test_a_missing_jar_is_named(tmp_path: Path, missing: str) -> None:
    fill(tmp_path, *({*SERVER_JARS, *LOG_JARS} - {missing}))

    with pytest.raises(JarsMissing, match=f"has no {missing}-\\*.jar") as error:
        class_path(str(tmp_path))
    assert error.value.names == [f"{missing}-*.jar"]


def test_tls_needs_netty_and_plain_connections_do_not(tmp_path: Path) -> None:
    fill(tmp_path, *SERVER_JARS, *LOG_JARS)

    assert class_path(str(tmp_path))
    with pytest.raises(JarsMissing, match="netty-handler"):
        class_path(str(tmp_path), is_tls=True)


def test_the_newest_version_is_taken_and_other_jars_are_not_confused_with_it() -> None:
    files = ["zookeeper-3.9.5.jar", "zookeeper-3.10.0.jar", "zookeeper-jute-4.0.jar", "my-zookeeper-9.jar"]

    assert newest_jar("zookeeper", files) == "zookeeper-3.10.0.jar"
    assert newest_jar("zookeeper-jute", files) == "zookeeper-jute-4.0.jar"
    assert newest_jar("netty-codec", ["netty-codec-base-4.2.13.Final.jar"]) is None
    assert newest_jar("netty-codec", ["netty-codec-4.2.13.Final.jar"]) == "netty-codec-4.2.13.Final.jar"


def test_a_directory_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        class_path(str(tmp_path / "none"))


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)

    with pytest.raises(ClusterMissing, match=r"pip install 'warren\[cluster\]'"):
        class_path()


def test_the_jars_are_those_of_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    fill(tmp_path / "jars", *SERVER_JARS, *LOG_JARS)
    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(module, "find_spec", lambda name: spec)

    assert all(jar.startswith(str(tmp_path / "jars")) for jar in class_path())
