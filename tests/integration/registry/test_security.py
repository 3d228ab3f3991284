"""TLS and the secret of the cluster: a client without either is refused, in one sentence."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner

from tests.integration.registry.servers import HOST, RunningServer, running_ensemble
from warren.cli.main import app
from warren.errors import RegistryDenied, RegistryUnreached
from warren.registry.connection import connect_registry
from warren.registry.registry import Create, Set
from warren.registry.security import TlsFiles
from warren.registry.server import free_port

trustme = pytest.importorskip("trustme")

SECRET = "the secret of the cluster"


def certificate(authority: Any, folder: Path) -> TlsFiles:
    """The files of a certificate for loopback. ZooKeeper reads keys in the format PKCS #8 only."""
    folder.mkdir()
    issued = authority.issue_cert(HOST)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "certificate.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    return TlsFiles(
        authority=str(folder / "authority.pem"),
        certificate=str(folder / "certificate.pem"),
        key=str(folder / "key.pem"),
    )


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return certificate(trustme.CA(), tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture
def strangers(tmp_path: Path) -> TlsFiles:
    """A certificate of another authority."""
    return certificate(trustme.CA(), tmp_path / "theirs")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, zookeeper: RunningServer, tls: TlsFiles) -> Iterator[str]:
    """A server with TLS and a secret, run by the program. Ctrl-C ends it."""
    folder = tmp_path_factory.mktemp("secured")
    secret = folder / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    address = f"{HOST}:{free_port(HOST)}"
    files = ["--tls-ca", tls.authority, "--tls-certificate", tls.certificate, "--tls-key", tls.key]
    command = [sys.executable, "-m", "warren", "zookeeper", str(folder / "zk"), "--json"]
    command += ["--port", address.rpartition(":")[2], "--secret-file", str(secret), *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        try:
            line = supervisor.stdout.readline()
            assert json.loads(line)["address"] == address
            yield address
        finally:
            supervisor.send_signal(signal.SIGINT)
            _, errors = supervisor.communicate()
        assert (supervisor.returncode, errors) == (0, "")


def test_a_client_with_certificate_and_secret_reads_and_writes(address: str, tls: TlsFiles) -> None:
    registry = connect_registry(address, secret=SECRET, tls=tls)

    assert registry.write([Create("/cluster", b"1"), Create("/cluster/mine", b"", True)]).is_done

    node = registry.read("/cluster")
    assert node is not None
    assert node.data == b"1"
    registry.close()


@pytest.mark.parametrize("secret", [None, "the secret of another"])
def test_a_client_without_the_secret_sees_and_changes_nothing(address: str, tls: TlsFiles, secret: str | None) -> None:
    owner = connect_registry(address, secret=SECRET, tls=tls)
    owner.write([Create("/protected", b"1")])
    registry = connect_registry(address, secret=secret, tls=tls)

    for path in ("/protected", "/", "/zookeeper/config"):
        with pytest.raises(RegistryDenied, match=f"denies the use of {path}: .*secret"):
            registry.read(path)
        with pytest.raises(RegistryDenied):
            registry.children(path)
    with pytest.raises(RegistryDenied):
        registry.write([Set("/protected", b"2")])
    with pytest.raises(RegistryDenied):
        registry.write([Create("/another")])

    node = owner.read("/protected")
    assert node is not None
    assert node.data == b"1"
    registry.close()
    owner.close()


def test_a_client_without_the_right_certificate_is_refused_in_one_sentence(address: str, strangers: TlsFiles) -> None:
    with pytest.raises(RegistryUnreached, match="pass the files of the cluster's TLS"):
        connect_registry(address, secret=SECRET, tls=strangers, connect_s=1.0)


def test_a_client_that_trusts_the_server_but_is_not_trusted_is_refused(
    address: str, tls: TlsFiles, strangers: TlsFiles
) -> None:
    mixed = TlsFiles(authority=tls.authority, certificate=strangers.certificate, key=strangers.key)

    with pytest.raises(RegistryUnreached, match=r"TLS|certificate"):
        connect_registry(address, secret=SECRET, tls=mixed, connect_s=1.0)


def test_a_client_without_tls_is_refused_with_a_hint(address: str) -> None:
    with pytest.raises(RegistryUnreached, match="perhaps it requires TLS"):
        connect_registry(address, secret=SECRET, connect_s=1.0)


def test_the_status_of_a_server_with_tls_is_shown_only_with_tls(address: str, tls: TlsFiles) -> None:
    files = ["--tls-ca", tls.authority, "--tls-certificate", tls.certificate, "--tls-key", tls.key]
    command = ["zookeeper", "--json", "--status", address]

    result = CliRunner().invoke(app, [*command, *files])
    refused = CliRunner().invoke(app, command)

    assert result.exit_code == 0
    assert json.loads(result.stdout)[0]["mode"] == "standalone"
    assert refused.exit_code == 1
    assert not json.loads(refused.stdout)[0]["serving"]


def test_the_servers_of_an_ensemble_meet_over_tls(tmp_path: Path, zookeeper: RunningServer, tls: TlsFiles) -> None:
    with running_ensemble(tmp_path, 2, tls) as ensemble:
        registry = connect_registry(ensemble.addresses, tls=tls)

        assert registry.write([Create("/a")]).is_done
        assert sorted(ensemble.modes()) == ["follower", "leader"]
        registry.close()
