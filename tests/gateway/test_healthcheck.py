"""The health check of the container, against a broker with and without a certificate."""

from __future__ import annotations

import runpy
from pathlib import Path

import trustme

from tests.support.broker.http import running_http
from tests.tidy.source import ROOT
from warren.broker.security.tls import tls_context

is_healthy = runpy.run_path(str(ROOT / "deploy" / "healthcheck.py"))["is_healthy"]


def test_a_serving_broker_is_healthy_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    with running_http(tmp_path / "data") as served:
        assert is_healthy(str(served.port))

    assert not is_healthy(str(served.port))


def test_a_broker_with_a_certificate_is_queried_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("broker.example").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "broker.pem"))

    with running_http(tmp_path / "data", tls=tls_context(str(tmp_path / "broker.pem"))) as served:
        assert is_healthy(str(served.port))
