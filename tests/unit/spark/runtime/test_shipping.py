"""What is shipped to a cluster: the packages in a zip that Python imports from, and the command that submits."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.errors import BadInput
from warren.spark.runtime.shipping import package_zip, submit_command


def test_the_same_packages_make_the_same_bytes(tmp_path: Path) -> None:
    one, other = package_zip(str(tmp_path / "one")), package_zip(str(tmp_path / "other"))

    assert Path(one).read_bytes() == Path(other).read_bytes()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["warren.zip"]


def test_a_job_is_submitted_with_its_dependencies() -> None:
    pytest.importorskip("pyspark")

    command = submit_command(
        ["job.py", "--once"],
        "yarn",
        {"spark.executor.cores": "2", "spark.sql.session.timeZone": "CET"},
        package="/tmp/warren.zip",
        deploy_mode="cluster",
    )

    assert command[0].endswith("/pyspark/bin/spark-submit")
    assert command[1:5] == ["--master", "yarn", "--deploy-mode", "cluster"]
    assert command[-4:] == ["--py-files", "/tmp/warren.zip", "job.py", "--once"]
    settings = {command[at + 1] for at, word in enumerate(command) if word == "--conf"}
    assert {"spark.executor.cores=2", "spark.sql.session.timeZone=CET"} < settings
    assert "spark.python.unix.domain.socket.enabled=true" in settings
    assert not [setting for setting in settings if "log4j2" in setting or setting.startswith("spark.master")]


def test_a_driver_on_this_machine_is_quiet() -> None:
    pytest.importorskip("pyspark")

    command = submit_command(["job.py"], "spark://there:7077", {"spark.driver.extraJavaOptions": "-Dmine=1"})

    (options,) = [word for word in command if word.startswith("spark.driver.extraJavaOptions=")]
    assert "log4j2.properties" in options
    assert options.endswith(" -Dmine=1")


def test_a_setting_that_spark_does_not_know_is_not_submitted() -> None:
    with pytest.raises(BadInput, match=r"'executor\.cores' is not a setting of Spark"):
        submit_command(["job.py"], "yarn", {"executor.cores": "2"})
