"""Looks up the known vulnerabilities of pinned packages: exits with 1 if there is one, and says if none could be asked.

python deploy/audit.py PIP_AUDIT CONSTRAINTS
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

TIMEOUT_S: Final = 300.0
UNREACHED: Final = "known vulnerabilities were not looked up: {}"


def verdict(document: dict[str, Any]) -> tuple[int, list[str]]:
    """The exit code and the lines to print for what pip-audit found, as its JSON has it."""
    asked = [each for each in document["dependencies"] if "vulns" in each]
    found = [(each["name"], each["version"], flaw) for each in asked for flaw in each["vulns"]]
    if not asked:
        return 0, [UNREACHED.format("the database answered for none of the packages")]
    lines = [f"{name} {version}: {flaw['id']}, mended in {_mended(flaw)}" for name, version, flaw in found]
    left_out = len(document["dependencies"]) - len(asked)
    unknown = f"; {left_out} packages could not be looked up" if left_out else ""
    return (1 if found else 0), [*lines, f"{len(asked)} packages, {len(found)} known vulnerabilities{unknown}"]


def _mended(flaw: dict[str, Any]) -> str:
    return ", ".join(flaw.get("fix_versions", [])) or "no version yet"


def main(program: str, constraints: str) -> int:
    """Runs pip-audit over the file of constraints, and prints the verdict."""
    command = [program, "--requirement", constraints, "--no-deps", "--disable-pip", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        code, lines = 0, [UNREACHED.format(error)]
    else:
        try:
            code, lines = verdict(json.loads(done.stdout))
        except json.JSONDecodeError:
            reason = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
            code, lines = 0, [UNREACHED.format(reason)]
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
