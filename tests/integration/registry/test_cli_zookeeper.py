"""`warren zookeeper`: what it shows about servers, and the sentence for each way in which one cannot run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.integration.registry.servers import HOST, RunningServer
from warren.cli.main import app
from warren.registry import class_path, connection
from warren.registry.server import free_port


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(app, ["zookeeper", *map(str, arguments)], env={"COLUMNS": "200", **environment})


def test_the_status_of_servers_is_a_table(zookeeper: RunningServer) -> None:
    closed = f"{HOST}:{free_port(HOST)}"

    result = run("--status", f"{zookeeper.address},{closed}")

    assert result.exit_code == 1
    assert re.search(rf"^{zookeeper.address} +standalone +3\.\d+\.\d+ +\d+ +\d+", result.stdout, re.MULTILINE)
    assert re.search(rf"^{closed} +does not serve +– .*connection refused", result.stdout, re.MULTILINE)


def test_the_status_of_servers_is_json_for_programs(zookeeper: RunningServer) -> None:
    result = run("--status", zookeeper.address, "--json")

    assert result.exit_code == 0
    (status,) = json.loads(result.stdout)
    assert (status["address"], status["serving"], status["mode"]) == (zookeeper.address, True, "standalone")


def test_the_table_fits_a_terminal_of_80_columns(zookeeper: RunningServer) -> None:
    result = run("--status", f"{zookeeper.address},{HOST}:1", COLUMNS="80")

    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name the directory of the server"),
        (["DIR", "--id", "1"], "--id and --servers belong together"),
        (["DIR", "--servers", "a,b,c"], "--id and --servers belong together"),
        (["DIR", "--id", "4", "--servers", "a,b,c"], "the ensemble has the servers 1 to 3"),
        (["DIR", "--id", "1", "--servers", "a,b:1"], "'b:1' is not HOST or HOST:PEER_PORT:ELECTION_PORT"),
        (["DIR", "--id", "1", "--servers", "a,a"], "two servers have the same host and port"),
        (["DIR", "--host", "0.0.0.0"], "pass --secret-file or --insecure"),
        (["DIR", "--tls-ca", "ca.pem"], "TLS needs three files"),
        (["DIR", "--secret-file", "none"], "none: No such file"),
        (["DIR", "--jars", "."], "has no zookeeper-*.jar"),
        (["--status", "a b"], "expected HOST or HOST:PORT"),
    ],
)
def test_bad_input_is_one_sentence_and_makes_nothing(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(*arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_one_sentence(zookeeper: RunningServer, tmp_path: Path) -> None:
    result = run(tmp_path / "zk", "--port", zookeeper.settings.address.port)

    assert result.exit_code == 2
    assert result.stderr == f"cannot listen on {zookeeper.address}: the port is in use\n"


def test_a_directory_that_another_process_uses_is_one_sentence(zookeeper: RunningServer) -> None:
    result = run(zookeeper.settings.directory, "--port", 0)

    assert result.exit_code == 2
    assert re.search(r"cannot be used: process \d+ runs a server in it", result.stderr)


def test_a_directory_of_another_id_is_one_sentence(zookeeper: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "myid").write_text("2\n")
    (tmp_path / "server.lock").touch()

    result = run(tmp_path, "--port", 0, "--id", 1, "--servers", f"{HOST},localhost")

    assert result.exit_code == 2
    assert "it belongs to server 2 of an ensemble; use --id 2" in result.stderr


def test_no_java_is_one_sentence(zookeeper: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("warren.java.import_module", missing)

    result = run(tmp_path / "zk", JAVA_HOME="", PATH="")

    assert result.exit_code == 2
    assert result.stderr.startswith("ZooKeeper needs Java 17 or newer, and found none")
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_extra_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a long secret")
    secret.chmod(0o600)
    monkeypatch.setattr(class_path, "find_spec", lambda name: None)
    without_spark = run(tmp_path / "zk")
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    without_kazoo = run(tmp_path / "zk", "--secret-file", secret)

    for result, package in ((without_spark, "pyspark"), (without_kazoo, "kazoo")):
        assert result.exit_code == 2
        assert result.stderr == (
            f"a cluster needs packages that are not installed ({package}): "
            "`pip install 'warren[cluster]'` installs them\n"
        )
