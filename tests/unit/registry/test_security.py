"""The secret of a cluster and its TLS files: what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.errors import BadInput
from warren.registry.security import SECRET_SIZE_MAX, SECRET_SIZE_MIN, TlsFiles, read_secret, secret_digest, tls_files


def secret_file(folder: Path, content: bytes, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_secret_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    assert read_secret(secret_file(tmp_path, b"a long secret\r\nmore\n")) == "a long secret"


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadInput, match="chmod 600"):
        read_secret(secret_file(tmp_path, b"a long secret\n", mode))


@pytest.mark.parametrize("size", [0, SECRET_SIZE_MIN - 1, SECRET_SIZE_MAX + 1])
def test_a_secret_of_a_wrong_size_is_refused_and_not_shown(tmp_path: Path, size: int) -> None:
    with pytest.raises(BadInput, match="openssl rand -hex 32") as error:
        read_secret(secret_file(tmp_path, b"x" * size))
    assert "xx" not in str(error.value)


def test_a_file_that_is_no_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_secret(str(tmp_path / "none"))
    with pytest.raises(BadInput, match="not text"):
        read_secret(secret_file(tmp_path, b"\xff\xfe\xfa" * 10))


def test_the_digest_is_that_of_zookeeper() -> None:
    # The main function of ZooKeeper's DigestAuthenticationProvider prints this for `warren:a long secret`.
    assert secret_digest("a long secret") == "warren:xn/BInkT+vUNroBP4kOYl3hqO4E="


def test_tls_needs_all_of_its_files(tmp_path: Path) -> None:
    assert tls_files(None, None, None) is None
    with pytest.raises(BadInput, match="three files"):
        tls_files("ca.pem", None, None)
    with pytest.raises(BadInput, match="cannot be read"):
        tls_files(*[str(tmp_path / name) for name in ("ca", "certificate", "key")])


def test_a_client_checks_the_name_of_a_server_unless_it_is_its_own() -> None:
    files = TlsFiles(authority="a", certificate="b", key="c")

    assert files.checks_host
    assert not files.of_own_server().checks_host
