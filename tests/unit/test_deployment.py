"""The deployment of a broker: pinned packages, the audit of them, the systemd unit and the container."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement

from tests.tidy.source import ROOT
from warren.cli.main import app

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
UNITS = sorted((ROOT / "deploy").rglob("*.service"))
COMPOSE = ROOT / "deploy" / "cluster" / "compose.yaml"
SANDBOX = (
    "NoNewPrivileges=true",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=true",
    "ProtectClock=true",
    "ProtectControlGroups=true",
    "ProtectKernelLogs=true",
    "ProtectKernelModules=true",
    "ProtectKernelTunables=true",
    "PrivateDevices=true",
    "RestrictNamespaces=true",
    "RestrictSUIDSGID=true",
    "LockPersonality=true",
    "SystemCallFilter=@system-service",
    "StateDirectoryMode=0700",
    "UMask=0077",
)


def script(name: str) -> dict[str, Any]:
    """The names in a script of `deploy`."""
    return runpy.run_path(str(ROOT / "deploy" / name))


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    parsed = [Requirement(each) for each in [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]]
    return [each for each in parsed if each.name != "warren"]


def test_every_package_that_the_project_names_is_pinned_to_a_version_that_fits() -> None:
    pins = {name.lower().replace("_", "-"): version for name, version in PINS.items()}

    unfit = [str(each) for each in requirements() if not each.specifier.contains(pins.get(each.name.lower(), "0"))]

    assert unfit == []


@pytest.mark.parametrize("name", ["aiokafka", "kafka-python"])
def test_packages_whose_internals_the_broker_uses_have_an_upper_bound(name: str) -> None:
    matches = [each for each in requirements() if each.name == name]

    assert [any(each.operator == "<" for each in requirement.specifier) for requirement in matches] == [True]


def test_an_audit_fails_on_a_vulnerability_and_reports_a_failed_query() -> None:
    verdict = script("audit.py")["verdict"]
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    sound, bad = {"name": "a", "version": "1", "vulns": []}, {"name": "b", "version": "1", "vulns": [flaw]}
    skipped = {"name": "c", "skip_reason": "not found"}

    assert verdict({"dependencies": [sound, skipped]}) == (
        0,
        ["1 packages, 0 known vulnerabilities; 1 packages could not be looked up"],
    )
    assert verdict({"dependencies": [sound, bad]}) == (
        1,
        ["b 1: PYSEC-1, mended in 2.0", "2 packages, 1 known vulnerabilities"],
    )
    code, (line,) = verdict({"dependencies": [skipped]})
    assert (code, "not looked up" in line) == (0, True)


@pytest.mark.parametrize("line", SANDBOX)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_systemd_unit_keeps_its_sandbox(unit: Path, line: str) -> None:
    assert line in unit.read_text().splitlines()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_systemd_unit_runs_a_command_that_exists(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=/opt/warren/bin/warren (.*)$", unit.read_text(), re.MULTILINE)
    variables = dict(
        line.split("=") for line in (ROOT / "deploy/cluster/cluster.env").read_text().splitlines() if "=" in line
    )

    check_command(shlex.split(re.sub(r"\$\{(\w+)\}", lambda name: variables[name[1]], line)))


def test_the_containers_of_a_cluster_run_commands_that_exist() -> None:
    text = COMPOSE.read_text()
    commands = [json.loads(line) for line in re.findall(r"^ +command: (\[.*\])$", text, re.MULTILINE)]
    (printed,) = re.findall(r"run --rm client (.*)$", text, re.MULTILINE)

    assert [command[0] for command in commands] == ["zookeeper"] * 3 + ["cluster"] + ["serve"] * 3
    for command in [*commands, shlex.split(printed)]:
        check_command(command)


def check_command(arguments: list[str]) -> None:
    """Raises an error if the command line of `warren` does not take these arguments."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    command.make_context("warren", arguments)


def test_the_container_installs_the_pinned_packages_and_has_a_health_check() -> None:
    recipe = (ROOT / "deploy" / "Containerfile").read_text()

    assert "-c /source/constraints.txt" in recipe
    assert "\nARG EXTRAS=broker\n" in recipe
    assert "\nHEALTHCHECK " in recipe
    assert "\nUSER warren\n" in recipe


def test_the_container_is_built_from_the_source_alone() -> None:
    lines = [line for line in (ROOT / ".containerignore").read_text().splitlines() if not line.startswith("#")]

    assert lines[0] == "*"
    copied = {line[1:] for line in lines if line.startswith("!")}
    assert copied == {
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "src",
        "examples/demo",
        "deploy/healthcheck.py",
    }
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_every_link_in_the_source_leads_to_files_that_the_container_has() -> None:
    lines = (ROOT / ".containerignore").read_text().splitlines()
    copied = [ROOT / line[1:] for line in lines if line.startswith("!")]
    links = [path for path in (ROOT / "src").rglob("*") if path.is_symlink()]

    assert links
    assert [link for link in links if not any(link.resolve().is_relative_to(path) for path in copied)] == []
