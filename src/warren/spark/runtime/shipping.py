"""Ships a job to a cluster: makes Warren itself a zip, and builds the command line of spark-submit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from warren.errors import BadInput, SparkMissing
from warren.spark.runtime.tuning import JAVA_OPTIONS, settings_for

PACKAGES: Final = ("warren", "pyspark_warren")
CLUSTER: Final = "cluster"
ZIP_NAME: Final = "warren.zip"
ZIP_TIME: Final = (2020, 1, 1, 0, 0, 0)


def package_zip(directory: str) -> str:
    """Makes a zip of Warren's packages in `directory`, for `--py-files` or `addPyFile`, and returns its path.

    The same packages always give the same bytes.
    """
    path = os.path.join(directory, ZIP_NAME)
    os.makedirs(directory, exist_ok=True)
    aside = f"{path}.{os.getpid()}"
    with ZipFile(aside, "w", ZIP_DEFLATED) as file:
        for name, source in sorted(_files()):
            file.writestr(ZipInfo(name, ZIP_TIME), source.read_bytes(), ZIP_DEFLATED)
    os.replace(aside, path)
    return path


def submit_command(
    program: Sequence[str],
    master: str,
    conf: Mapping[str, str],
    *,
    package: str | None = None,
    deploy_mode: str | None = None,
) -> list[str]:
    """Returns the command that runs `program`, a script and its arguments, on `master`.

    Settings in `conf` take precedence over Warren's choices. `package` is the zip of `package_zip`; without it Warren
    must be installed on the cluster.
    """
    settings = settings_for(master, conf)
    del settings["spark.master"]
    command = [spark_submit(), "--master", master]
    if deploy_mode is not None:
        command += ["--deploy-mode", deploy_mode]
    if deploy_mode == CLUSTER and JAVA_OPTIONS not in conf:
        # They name a file of this machine, which the driver on the cluster does not have.
        settings.pop(JAVA_OPTIONS, None)
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    if package is not None:
        command += ["--py-files", package]
    return [*command, *program]


def spark_submit() -> str:
    """Returns the program `spark-submit` of the installed PySpark."""
    return os.path.join(_folder("pyspark"), "bin", "spark-submit")


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        folder = Path(_folder(package))
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(Path(package) / path.relative_to(folder)), path


def _folder(package: str) -> str:
    """Returns the directory of `package` without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        if package == "pyspark":
            raise SparkMissing
        raise BadInput(
            f"the package {package} is not installed, so it cannot be shipped: `pip install 'warren[spark]'`"
        )
    folder = spec.submodule_search_locations[0]
    if not os.path.isdir(folder):
        raise BadInput(
            f"the package {package} is in {folder}, which is not a directory; ship the file that it came from"
        )
    return folder
