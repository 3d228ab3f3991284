"""The settings that Warren chooses for a Spark session; all other settings take precedence."""

from __future__ import annotations

import pytest

from warren.errors import BadInput
from warren.spark.runtime.machine import cores
from warren.spark.runtime.tuning import LOG_SETTINGS, is_local, settings_for, threads


def test_a_local_session_listens_on_loopback_only() -> None:
    settings = settings_for("local[3]", {})

    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.sql.shuffle.partitions"] == "3"


def test_a_session_on_a_cluster_is_left_its_addresses_and_its_checkpoints() -> None:
    settings = settings_for("spark://there:7077", {})

    assert not [name for name in settings if name.startswith("spark.driver.") and "Java" not in name]
    assert "spark.sql.streaming.checkpointFileManagerClass" not in settings
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"


def test_settings_of_the_user_override_the_defaults_of_warren() -> None:
    settings = settings_for("local", {"spark.sql.session.timeZone": "Europe/Berlin", "spark.ui.enabled": "true"})

    assert (settings["spark.sql.session.timeZone"], settings["spark.ui.enabled"]) == ("Europe/Berlin", "true")


def test_options_for_the_jvm_are_added_to_those_that_keep_it_quiet() -> None:
    settings = settings_for("local", {"spark.driver.extraJavaOptions": "-Dmine=1"})

    assert settings["spark.driver.extraJavaOptions"] == f'-Dlog4j2.configurationFile="{LOG_SETTINGS}" -Dmine=1'
    assert settings_for("local", settings) == settings


def test_a_setting_that_spark_does_not_know_is_refused() -> None:
    with pytest.raises(BadInput, match=r"'shuffle.partitions' is not a setting of Spark"):
        settings_for("local", {"shuffle.partitions": "2"})


@pytest.mark.parametrize(
    ("master", "count"),
    [("local", 1), ("local[4]", 4), ("local[4,3]", 4), ("local[*]", cores()), ("local-cluster[2,3,1024]", 6)],
)
def test_a_local_master_runs_one_task_for_each_thread(master: str, count: int) -> None:
    assert is_local(master)
    assert threads(master) == count


@pytest.mark.parametrize("master", ["spark://local:7077", "yarn", "k8s://https://local", "localhost"])
def test_other_masters_are_not_this_machine(master: str) -> None:
    assert not is_local(master)
