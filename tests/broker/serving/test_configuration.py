"""The configuration: file, environment and flags in rising precedence, and no unknown keys."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.documents import rows
from tests.tidy.source import ROOT
from warren.broker.configuration import KEYS, parse_address, read_configuration, variable_of
from warren.broker.net.logs import JsonLogLines, TextLines
from warren.broker.net.places import is_loopback
from warren.broker.settings import BrokerLimits
from warren.errors import BadConfiguration, BadInput


def configured(tmp_path: Path, text: str, **variables: str) -> Any:
    path = tmp_path / "warren.toml"
    path.write_text(text)
    return read_configuration(str(path), variables, {})


def test_an_empty_configuration_is_the_defaults() -> None:
    configuration = read_configuration(None, {}, {})

    assert (configuration["broker.host"], configuration["broker.port"]) == ("127.0.0.1", 9092)
    assert configuration.limits() == BrokerLimits()
    assert configuration.section("topics") == {}
    assert set(configuration.sources.values()) == {"default"}


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "warren.toml"
    path.write_text('[broker]\nhost = "::1"\nport = 1\nlog_format = "json"\n[limits]\nfetch_wait_s_max = 2\n')

    configuration = read_configuration(
        str(path), {"WARREN_BROKER_PORT": "2", "WARREN_BROKER_HOST": "localhost"}, {"broker.port": 3}
    )

    assert [configuration[f"broker.{key}"] for key in ("host", "port", "log_format")] == ["localhost", 3, "json"]
    assert [configuration.sources[f"broker.{key}"] for key in ("host", "port", "log_format")] == [
        "environment",
        "flag",
        "file",
    ]
    assert configuration.limits().fetch_wait_s_max == 2.0


@pytest.mark.parametrize(
    ("listens_at", "host", "certificate", "url"),
    [
        ("0.0.0.0", "a", "", "http://a:8080"),
        ("::", "fd00::1", "", "http://[fd00::1]:8080"),
        ("", "a", "broker.pem", "https://a:8080"),
        ("10.0.0.1", "a", "", "http://10.0.0.1:8080"),
        ("127.0.0.1", "a", "", ""),
        ("127.0.0.1", "localhost", "", "http://localhost:8080"),
        ("0.0.0.0", "0.0.0.0", "", ""),
    ],
)
def test_the_url_of_http_is_one_that_other_machines_reach(
    listens_at: str, host: str, certificate: str, url: str
) -> None:
    flags = {"http.host": listens_at, "tls.certificate": certificate}

    assert read_configuration(None, {}, {**flags, "http.port": 8080}).http_url(host) == url
    assert read_configuration(None, {}, {**flags, "http.port": 0}).http_url(host) == ""
    assert read_configuration(None, {}, flags).http_url(host) == ""


@pytest.mark.parametrize(
    ("text", "variables", "sentence"),
    [
        ("[broker]\nprot = 1", {}, "there is no key 'broker.prot'; did you mean 'broker.port'?"),
        ("[brokers]\nport = 1", {}, "there is no section 'brokers'; did you mean 'broker'?"),
        ("port = 1", {}, "port is in no section"),
        ("[broker", {}, "not TOML"),
        ("", {"WARREN_LIMITS_CONECTIONS_MAX": "1"}, "did you mean 'WARREN_LIMITS_CONNECTIONS_MAX'?"),
        ("[broker]\nport = 70000", {}, "broker.port: expected a whole number from 0 to 65535, not 70000"),
        ("[broker]\nport = true", {}, "broker.port: expected a whole number"),
        ("", {"WARREN_BROKER_PORT": "many"}, "broker.port: expected a whole number"),
        ("[broker]\ninsecure = 1", {}, "broker.insecure: expected true or false"),
        ("[broker]\nhost = 1", {}, "broker.host: expected text"),
        ('[broker]\nadvertise = "host"', {}, "broker.advertise: expected host:port"),
        ('[broker]\nlog_format = "xml"', {}, "broker.log_format: expected one of text, json, not 'xml'"),
        ("[limits]\nstop_s_max = -1", {}, "limits.stop_s_max: expected seconds"),
        ("[limits]\nfetch_size_max = 0x" + "f" * 5000, {}, "limits.fetch_size_max: expected a whole number"),
        ("[limits]\nfetch_size_max = " + "9" * 5000, {}, "not TOML"),
        ('[limits]\nconnections_max_of_address = ["10.0.0.7"]', {}, "expected an address and a count, as in 10.0.0.7="),
        ("[quotas]\nrequest_rate = 0", {}, "quotas.request_rate: expected a number above 0, at most"),
        ('[broker]\nadvertise = "host:0"', {}, "broker.advertise: expected host:port, not 'host:0'"),
        ("[security]\nmechanisms = []", {}, "security.mechanisms: expected some of PLAIN, SCRAM-SHA-256"),
        ("[limits]\nstop_s_max = true", {}, "limits.stop_s_max: expected seconds"),
        (
            '[security]\nmechanisms = ["GSSAPI"]',
            {},
            "security.mechanisms: expected one of PLAIN, SCRAM",
        ),
        ("[security]\nsuper_users = 1", {}, "security.super_users: expected a list of text"),
        ('[topics]\ndurability = "never"', {}, "topics.durability: expected commit, os, or an interval"),
        ("[topics]\npartitions = 0", {}, "topics.partitions: expected a whole number from 1 to 1000, not 0"),
        (
            '[topics]\nblock_size = "big"',
            {},
            "topics.block_size: expected a size from 4096 to 536870912 bytes",
        ),
    ],
)
def test_a_bad_setting_is_refused_and_named(
    tmp_path: Path, text: str, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadConfiguration, match=re.escape(sentence)) as caught:
        configured(tmp_path, text, **variables)

    assert isinstance(caught.value, BadInput)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"gone\.toml: No such file"):
        read_configuration(str(tmp_path / "gone.toml"), {}, {})


def test_other_variables_of_warren_are_left_alone() -> None:
    configuration = read_configuration(None, {"WARREN_STORE": "data", "PATH": "/bin"}, {})

    assert set(configuration.sources.values()) == {"default"}


def test_defaults_of_topics_reach_the_store(tmp_path: Path) -> None:
    configuration = configured(tmp_path, '[topics]\npartitions = 3\ndurability = "os"\nretention_age_s = 60\n')

    assert configuration.section("topics") == {"partitions": 3, "durability": "os", "retention_age_s": 60.0}


def test_sizes_and_times_of_topics_may_have_units(tmp_path: Path) -> None:
    configuration = configured(
        tmp_path, '[topics]\nretention_age_s = "7d"\nblock_size = "1MiB"\n', WARREN_TOPICS_RETENTION_BYTES="10GiB"
    )

    assert configuration.section("topics") == {
        "block_size": 1 << 20,
        "retention_age_s": 604_800.0,
        "retention_bytes": 10 << 30,
    }


def test_the_life_of_a_transactional_id_may_have_units(tmp_path: Path) -> None:
    configuration = configured(tmp_path, '[broker]\ntransactional_id_s = "1h30m"\n')

    assert configuration.section("broker")["transactional_id_s"] == 5400.0


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")],
        *[(host, False) for host in ("0.0.0.0", "", "::", "10.0.0.1", "broker.example")],
    ],
)
def test_loopback_is_recognised(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


def test_an_address_has_a_host_and_a_port() -> None:
    assert parse_address("[::1]:9092") == ("::1", 9092)
    assert parse_address("broker.example:1") == ("broker.example", 1)


def test_the_document_names_every_key_and_its_default() -> None:
    document = (ROOT / "docs/broker.md").read_text()

    table = rows(document, "Every key", "key", "variable", "default", "what it is")

    assert table == [
        [key, variable_of(key), default_cell(each.default), each.description.strip("`")] for key, each in KEYS.items()
    ]


def default_cell(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return "" if default is None else str(default)


def test_a_log_line_is_one_line_for_any_input_of_a_peer() -> None:
    record = logging.LogRecord("warren.broker", logging.WARNING, "", 0, "closed: %s", ("a\nwarning b\x1b[2J",), None)

    text, data = TextLines().format(record), JsonLogLines().format(record)

    assert text.endswith(r"warning closed: a\nwarning b\x1b[2J")
    assert "\n" not in text + data
    assert json.loads(data)["message"] == "closed: a\nwarning b\x1b[2J"
    assert json.loads(data)["level"] == "warning"
