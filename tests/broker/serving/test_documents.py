"""The documents about the broker are true: commands, headers, requests, and the files for servers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer
from typer.core import TyperGroup

from tests.tidy.documents import rows
from tests.tidy.source import ROOT
from tests.tidy.style import forbidden_words
from warren.broker.configuration import KEYS, read_configuration
from warren.broker.kafka.configs import CONFIGS, FIXED
from warren.broker.security.table import HTTP, KAFKA, OWN
from warren.broker.server import check_address
from warren.cli.main import app
from warren.gateway.handlers.topics import CHANGES
from warren.protocol.api_keys import APIS
from warren.protocol.native_schemas import NativeKey
from warren.queue.state.settings import TOPIC_SETTINGS

BROKER = (ROOT / "docs/broker.md").read_text()
TOPICS = (ROOT / "docs/topics.md").read_text()
DEPLOY = ROOT / "deploy"


def commands() -> set[str]:
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    names = set()
    for name, command in program.commands.items():
        inner = command.commands if isinstance(command, TyperGroup) else {"": command}
        names |= {f"{name} {sub}".strip() for sub in inner}
    return names


def documented() -> set[str]:
    names = set()
    for cell, _ in rows((ROOT / "docs/cli.md").read_text(), "The commands", "command", "what it does"):
        first, *others = [part.strip("` ") for part in cell.split(",")]
        words = [word for word in first.split()[1:] if word.islower()]
        names |= {" ".join(words), *(" ".join([*words[:-1], other]) for other in others)}
    return names


def test_the_document_of_the_command_line_names_every_command() -> None:
    assert documented() == commands()


def test_the_names_of_settings_are_those_of_the_code() -> None:
    table = rows(BROKER, "Settings of topics", "name", "setting")

    assert {name: setting.partition("`")[0] for name, setting in table} == {
        # Kafka's word for a block is not one of our words.
        name: config.setting
        for name, config in CONFIGS.items()
        if not forbidden_words(name)
    }
    assert all(f"`{name}`" in BROKER for name in FIXED)


def test_every_setting_of_a_topic_is_known_wherever_topics_are_made_or_changed() -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    topic = program.commands["topic"]
    assert isinstance(topic, TyperGroup)
    names = set(TOPIC_SETTINGS)

    assert {name for (name,) in rows(TOPICS, "Topics", "setting")} == names
    assert {config.setting for config in CONFIGS.values()} == names - {"partitions", "version"}
    assert set(CHANGES.fields) == names - {"version"}
    defaults = {key.partition(".")[2] for key in KEYS if key.startswith("topics.")}
    # The broker's default of `deliver_at` applies to all topics, also to those that other programs created.
    assert defaults == names - {"version", "dead_letter", "deliver_at"}
    assert "broker.deliver_at" in KEYS
    options = {parameter.name for parameter in topic.commands["create"].params} | {"retention_age_s"}
    assert names <= options


def test_the_tables_of_rights_are_those_of_the_code() -> None:
    tables = {
        "Rights of Kafka's clients": {APIS[key].name: row.words for key, row in KAFKA.items()},
        "Rights of `warren.connect`": {NativeKey(key).title: row.words for key, row in OWN.items()},
        "Rights over HTTP": {route: row.words for route, row in HTTP.items()},
    }

    for title, table in tables.items():
        pairs = rows(BROKER, title, "request", "needs")
        written = [(name.strip("` "), needs) for names, needs in pairs for name in names.split(", ")]

        assert sorted(written) == sorted(table.items())


def test_the_configuration_for_servers_can_be_read_and_needs_no_insecure() -> None:
    configuration = read_configuration(str(DEPLOY / "warren.toml"), {}, {})

    check_address(configuration)

    assert configuration.settings().rights
    assert configuration.advertised() == ("broker.example", 9092)


def test_the_files_for_servers_start_it_with_flags_that_there_are() -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    options = {option for parameter in program.commands["serve"].params for option in parameter.opts}
    unit, recipe = (Path(DEPLOY, name).read_text() for name in ("warren.service", "Containerfile"))
    started = shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0])
    entered = re.findall(r'"([^"]*)"', re.findall(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)[0])

    for words in (started, entered):
        assert words[1] == "serve"
        assert {word for word in words if word.startswith("--")} <= options
