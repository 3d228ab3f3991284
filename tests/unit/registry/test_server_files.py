"""The files of a server: the text of zoo.cfg, its identity, and the owner of its directory."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from warren.errors import BadInput, ServerDirectoryInUse
from warren.registry.addresses import Address, parse_members
from warren.registry.security import TlsFiles
from warren.registry.server_files import PKCS8, ServerSettings, configuration, directory_lock, escaped, write_files

MEMBERS = parse_members("a,b:1:2,[::1]")


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(directory=str(tmp_path / "zk"), address=Address("127.0.0.1", 2181))


@pytest.fixture
def member(settings: ServerSettings) -> ServerSettings:
    return replace(settings, id=2, members=MEMBERS)


def values(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_server_that_stands_alone(settings: ServerSettings) -> None:
    assert configuration(settings).splitlines() == [
        "tickTime=500",
        "initLimit=20",
        "syncLimit=4",
        "admin.enableServer=false",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
        "4lw.commands.whitelist=srvr,mntr",
        "fastleader.maxNotificationInterval=400",
        f"dataDir={settings.directory}/data",
        "clientPort=2181",
        "clientPortAddress=127.0.0.1",
    ]


def test_the_servers_of_an_ensemble_are_numbered_from_one(member: ServerSettings) -> None:
    text = configuration(member)

    assert text.splitlines()[-3:] == ["server.1=a:2888:3888", "server.2=b:1:2", "server.3=[::1]:2888:3888"]


def test_with_tls_there_is_no_plain_port(settings: ServerSettings, member: ServerSettings, tmp_path: Path) -> None:
    tls = TlsFiles(authority="ca.pem", certificate="cert.pem", key="key.pem")

    alone = values(configuration(replace(settings, tls=tls)))
    of_ensemble = values(configuration(replace(member, tls=tls)))

    assert alone["secureClientPort"] == "2181"
    assert alone["ssl.clientAuth"] == of_ensemble["ssl.quorum.clientAuth"] == "need"
    assert alone["ssl.keyStore.location"] == f"{settings.directory}/tls/server.pem"
    assert "sslQuorum" not in alone
    assert of_ensemble["sslQuorum"] == "true"
    assert "clientPort" not in alone.keys() | of_ensemble.keys()


def test_the_digest_of_the_secret_is_in_the_configuration_that_only_its_owner_reads(settings: ServerSettings) -> None:
    settings = replace(settings, super_digest="warren:abc=")

    with directory_lock(settings):
        write_files(settings)

    path = Path(settings.directory, "zoo.cfg")
    assert values(path.read_text())["DigestAuthenticationProvider.superDigest"] == "warren:abc="
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "expected"),
    [("/a b=c#d", "/a b=c#d"), ("a\\b", "a\\\\b"), ("größe", "gr\\u00f6\\u00dfe"), ("𝄞", "\\ud834\\udd1e")],
)
def test_values_are_escaped_as_java_reads_them(text: str, expected: str) -> None:
    assert escaped(text) == expected


@pytest.mark.parametrize(
    ("number", "members", "reason"),
    [
        (1, (), "belong together"),
        (None, MEMBERS, "belong together"),
        (0, MEMBERS, "servers 1 to 3"),
        (4, MEMBERS, "servers 1 to 3"),
    ],
)
def test_a_number_that_does_not_fit_the_servers_is_bad_input(
    settings: ServerSettings, number: int | None, members: list[object], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        replace(settings, id=number, members=members).check()  # type: ignore[arg-type]


def test_a_directory_belongs_to_one_server_of_an_ensemble(settings: ServerSettings, member: ServerSettings) -> None:
    with directory_lock(member):
        write_files(member)
    assert Path(member.directory, "data", "myid").read_text() == "2\n"

    with directory_lock(member):
        pass
    for wrong in (replace(member, id=1), settings):
        with pytest.raises(ServerDirectoryInUse, match="it belongs to server 2 of an ensemble"), directory_lock(wrong):
            pass


def test_a_server_that_stood_alone_may_join_an_ensemble(settings: ServerSettings, member: ServerSettings) -> None:
    with directory_lock(settings):
        write_files(settings)

    with directory_lock(member):
        write_files(member)

    assert Path(member.directory, "data", "myid").exists()


def test_only_one_process_uses_a_directory(settings: ServerSettings) -> None:
    with (
        directory_lock(settings),
        pytest.raises(ServerDirectoryInUse, match=f"process {os.getpid()} runs"),
        directory_lock(settings),
    ):
        pass


def test_a_directory_with_other_files_is_left_alone(settings: ServerSettings, tmp_path: Path) -> None:
    place = tmp_path / "store"
    place.mkdir()
    (place / "store.json").touch()

    with (
        pytest.raises(ServerDirectoryInUse, match="other files"),
        directory_lock(replace(settings, directory=str(place))),
    ):
        pass
    with (
        pytest.raises(ServerDirectoryInUse, match="it is a file"),
        directory_lock(replace(settings, directory=str(place / "store.json"))),
    ):
        pass

    assert os.listdir(place) == ["store.json"]


def files_in(folder: Path) -> TlsFiles:
    return TlsFiles(
        authority=str(folder / "authority"), certificate=str(folder / "certificate"), key=str(folder / "key")
    )


def test_key_and_certificate_become_one_file(settings: ServerSettings, tmp_path: Path) -> None:
    names = {"authority": "CA\n", "certificate": "CERTIFICATE\n", "key": f"{PKCS8}\nKEY"}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    settings = replace(settings, tls=files_in(tmp_path))

    with directory_lock(settings):
        write_files(settings)

    assert Path(settings.directory, "tls", "server.pem").read_text() == f"{PKCS8}\nKEY\nCERTIFICATE\n"


def test_a_key_that_zookeeper_cannot_read_is_refused_with_the_command_that_converts_it(
    settings: ServerSettings, tmp_path: Path
) -> None:
    for name in ("authority", "certificate", "key"):
        (tmp_path / name).write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    settings = replace(settings, tls=files_in(tmp_path))

    with directory_lock(settings), pytest.raises(BadInput, match="openssl pkcs8 -topk8"):
        write_files(settings)
