"""The configuration: file, environment and flags in rising order, and nothing that is not known."""

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
from warren.broker.limits import Limits
from warren.broker.logs import JsonLines, TextLines
from warren.broker.places import is_loopback
from warren.errors import BadConfiguration, BadInput


def told(tmp_path: Path, text: str, **variables: str) -> Any:
    path = tmp_path / "warren.toml"
    path.write_text(text)
    return read_configuration(str(path), variables, {})


def test_nothing_told_is_the_defaults() -> None:
    configuration = read_configuration(None, {}, {})

    assert (configuration["broker.host"], configuration["broker.port"]) == ("127.0.0.1", 9092)
    assert configuration.limits() == Limits()
    assert configuration.section("topics") == {}
    assert set(configuration.sources.values()) == {"default"}


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "warren.toml"
    path.write_text('[broker]\nhost = "::1"\nport = 1\nlog_format = "json"\n[limits]\nfetch_wait_s_max = 2\n')

    found = read_configuration(
        str(path), {"WARREN_BROKER_PORT": "2", "WARREN_BROKER_HOST": "localhost"}, {"broker.port": 3}
    )

    assert [found[f"broker.{key}"] for key in ("host", "port", "log_format")] == ["localhost", 3, "json"]
    assert [found.sources[f"broker.{key}"] for key in ("host", "port", "log_format")] == ["environment", "flag", "file"]
    assert found.limits().fetch_wait_s_max == 2.0


@pytest.mark.parametrize(
    ("text", "variables", "sentence"),
    [
        ("[broker]\nprot = 1", {}, "there is no key broker.prot; did you mean broker.port?"),
        ("[brokers]\nport = 1", {}, "there is no section brokers; did you mean broker?"),
        ("port = 1", {}, "port stands in no section"),
        ("[broker", {}, "not TOML"),
        ("", {"WARREN_LIMITS_CONECTIONS_MAX": "1"}, "did you mean WARREN_LIMITS_CONNECTIONS_MAX?"),
        ("[broker]\nport = 70000", {}, "broker.port: expected a whole number from 0 to 65535, not 70000"),
        ("[broker]\nport = true", {}, "broker.port: expected a whole number"),
        ("", {"WARREN_BROKER_PORT": "many"}, "broker.port: expected a whole number"),
        ("[broker]\ninsecure = 1", {}, "broker.insecure: expected true or false"),
        ("[broker]\nhost = 1", {}, "broker.host: expected text"),
        ('[broker]\nadvertise = "host"', {}, "broker.advertise: expected host:port"),
        ('[broker]\nlog_format = "xml"', {}, "broker.log_format: expected text or json"),
        ("[limits]\nstop_s_max = -1", {}, "limits.stop_s_max: expected seconds"),
        ("[limits]\nstop_s_max = true", {}, "limits.stop_s_max: expected seconds"),
        ('[security]\nmechanisms = ["GSSAPI"]', {}, "security.mechanisms: expected some of PLAIN"),
        ("[security]\nsuper_users = 1", {}, "security.super_users: expected a list of text"),
        ('[topics]\ndurability = "never"', {}, "topics.durability: durability 'never'"),
        ("[topics]\npartitions = 0", {}, "topics.partitions: expected a whole number"),
    ],
)
def test_what_cannot_be_is_refused_and_named(
    tmp_path: Path, text: str, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadConfiguration, match=re.escape(sentence)) as caught:
        told(tmp_path, text, **variables)

    assert isinstance(caught.value, BadInput)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"gone\.toml: No such file"):
        read_configuration(str(tmp_path / "gone.toml"), {}, {})


def test_other_variables_of_warren_are_left_alone() -> None:
    configuration = read_configuration(None, {"WARREN_STORE": "data", "PATH": "/bin"}, {})

    assert set(configuration.sources.values()) == {"default"}


def test_defaults_of_topics_reach_the_store(tmp_path: Path) -> None:
    configuration = told(tmp_path, '[topics]\npartitions = 3\ndurability = "os"\nretention_age_s = 60\n')

    assert configuration.section("topics") == {"partitions": 3, "durability": "os", "retention_age_s": 60.0}


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")],
        *[(host, False) for host in ("0.0.0.0", "", "::", "10.0.0.1", "broker.example")],
    ],
)
def test_loopback_is_known(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


def test_an_address_has_a_host_and_a_port() -> None:
    assert parse_address("[::1]:9092") == ("::1", 9092)
    assert parse_address("broker.example:1") == ("broker.example", 1)


def test_the_document_names_every_key_and_its_default() -> None:
    document = (ROOT / "docs/broker.md").read_text()

    found = rows(document, "Every key", "key", "variable", "default", "what it is")

    assert found == [[key, variable_of(key), shown(each.default), each.what.strip("`")] for key, each in KEYS.items()]


def shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return "" if default is None else str(default)


def test_a_log_line_is_one_line_whatever_a_peer_sends() -> None:
    record = logging.LogRecord("warren.broker", logging.WARNING, "", 0, "closed: %s", ("a\nwarning b\x1b[2J",), None)

    text, data = TextLines().format(record), JsonLines().format(record)

    assert text.endswith(r"warning closed: a\nwarning b\x1b[2J")
    assert "\n" not in text + data
    assert json.loads(data)["message"] == "closed: a\nwarning b\x1b[2J"
    assert json.loads(data)["level"] == "warning"
