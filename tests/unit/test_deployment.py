"""What a broker is deployed with: pinned packages, the audit of them, the systemd unit and the container."""

from __future__ import annotations

import runpy
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.tidy.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
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
    given = [Requirement(each) for each in [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]]
    return [each for each in given if each.name != "warren"]


def test_every_package_that_the_project_names_is_pinned_to_a_version_that_fits() -> None:
    pins = {name.lower().replace("_", "-"): version for name, version in PINS.items()}

    unfit = [str(each) for each in requirements() if not each.specifier.contains(pins.get(each.name.lower(), "0"))]

    assert unfit == []


@pytest.mark.parametrize("name", ["aiokafka", "kafka-python"])
def test_packages_whose_internals_the_broker_uses_have_an_upper_bound(name: str) -> None:
    found = [each for each in requirements() if each.name == name]

    assert [any(each.operator == "<" for each in requirement.specifier) for requirement in found] == [True]


def test_an_audit_fails_on_a_vulnerability_and_says_if_it_could_not_ask() -> None:
    verdict = script("audit.py")["verdict"]
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    asked, bad = {"name": "a", "version": "1", "vulns": []}, {"name": "b", "version": "1", "vulns": [flaw]}
    skipped = {"name": "c", "skip_reason": "not found"}

    assert verdict({"dependencies": [asked, skipped]}) == (
        0,
        ["1 packages, 0 known vulnerabilities; 1 packages could not be looked up"],
    )
    assert verdict({"dependencies": [asked, bad]}) == (
        1,
        ["b 1: PYSEC-1, mended in 2.0", "2 packages, 1 known vulnerabilities"],
    )
    code, (line,) = verdict({"dependencies": [skipped]})
    assert (code, "not looked up" in line) == (0, True)


@pytest.mark.parametrize("line", SANDBOX)
def test_the_systemd_unit_keeps_its_sandbox(line: str) -> None:
    assert line in (ROOT / "deploy" / "warren.service").read_text().splitlines()


def test_the_container_installs_the_pinned_packages_and_has_a_health_check() -> None:
    recipe = (ROOT / "deploy" / "Containerfile").read_text()

    assert "-c /source/constraints.txt" in recipe
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
