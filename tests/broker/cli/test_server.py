"""Commands that use a broker: how it is named, which users are admitted, and which commands need the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result

import warren
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerSettings
from warren.cli.commands.read import FollowPosition, listening
from warren.cli.main import app
from warren.cli.options.cluster_options import BrokerAccess, at_brokers
from warren.cli.options.store_option import password_of
from warren.errors import ConnectionLost
from warren.protocol.native_messages import SeeClusterRequest
from warren.storage.format.tags import TagFilter

trustme = pytest.importorskip("trustme")
SECRET = "open sesame"


def run(*arguments: str, **environment: str) -> Result:
    """Runs the program in this process."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", **environment})


def failed(result: Result, code: int, words: str) -> bool:
    """Returns whether a command wrote only one line on stderr, with these words."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    return True


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a broker that requires TLS and a password of ann, and the certificates to trust."""
    authority, pem, trusted = trustme.CA(), tmp_path / "broker.pem", tmp_path / "ca.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    authority.cert_pem.write_to_path(str(trusted))
    with running_broker(tmp_path / "data", tls=tls_context(str(pem)), settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", SECRET)
        yield running.address, trusted


# --- Which store ---


def test_an_option_goes_before_the_environment_and_two_of_a_kind_are_refused(
    broker: RunningBroker, tmp_path: Path
) -> None:
    here, there = str(tmp_path / "here"), broker.address
    run("put", "orders", "a", "--server", there)
    run("put", "orders", "a", "b", "--store", here)

    def count(*arguments: str, **environment: str) -> int:
        return len(run("read", "orders", *arguments, **environment).stdout.splitlines())

    assert count("--server", there, WARREN_STORE=here) == 1
    assert count("--store", here, WARREN_SERVER=there) == 2
    assert count(WARREN_SERVER=there, WARREN_USER="") == 1
    assert failed(run("topic", "list", "--store", here, "--server", there), 2, "--store and --server each name a store")
    assert failed(run("topic", "list", WARREN_STORE=here, WARREN_SERVER=there), 2, "WARREN_STORE and WARREN_SERVER")
    assert failed(run("topic", "list", "--store", here, "--ca", "x"), 2, "--ca can only be used with --server")


def test_an_unreachable_broker_and_a_missing_address_are_one_line_each() -> None:
    assert failed(run("topic", "list", "--server", "127.0.0.1:1", "--timeout", "100ms"), 1, "no answer from the broker")
    assert failed(run("topic", "list", "--server", "host:port"), 2, "expected host:port")


@pytest.mark.parametrize("more", [[], ["--delay", "1h"], ["--key", "k", "--partition", "0"]], ids=" ".join)
@pytest.mark.parametrize("where", ["--store", "--server"])
def test_put_into_the_topic_of_a_queue_is_refused_and_writes_nothing(
    broker: RunningBroker, tmp_path: Path, where: str, more: list[str]
) -> None:
    place = broker.address if where == "--server" else str(tmp_path / "here")
    with warren.connect(place, timeout=PATIENCE_S) if where == "--server" else warren.open(place) as store:
        jobs = store.queue("jobs")
        jobs.put("item")

        result = run("put", "jobs", "a", "b", where, place, *more)

        assert failed(result, 2, "topic 'jobs' is a queue: only store.queue('jobs') puts into it")
        assert (jobs.qsize(), jobs.get(timeout=PATIENCE_S), jobs.qsize()) == (1, "item", 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["put", "orders", "a", "--durability", "os"], "--durability needs the files of the store"),
        (["log", "verify", "data"], "needs the files themselves"),
        (["log", "repair", "data"], "needs the files themselves"),
    ],
)
def test_commands_that_need_files_are_refused_with_the_reason(
    broker: RunningBroker, arguments: list[str], words: str
) -> None:
    assert failed(run(*arguments, "--server", broker.address), 2, words)


# --- Logins ---


def test_a_password_comes_from_a_file_or_the_environment_and_is_written_nowhere(
    guarded: tuple[str, Path], tmp_path: Path
) -> None:
    address, trusted = guarded
    (tmp_path / "secret").write_text(SECRET + "\n")
    named = ["--server", address, "--ca", str(trusted)]

    by_file = run("put", "orders", "a", *named, "--user", "ann", "--password-file", str(tmp_path / "secret"))
    by_environment = run("topic", "list", *named, WARREN_USER="ann", WARREN_PASSWORD=SECRET)

    assert "partition 0, number 0" in by_file.stdout
    assert "orders" in by_environment.stdout
    wrong = run("topic", "list", *named, "--user", "ann", WARREN_PASSWORD=SECRET + "s")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "refuses user 'ann'" in wrong.stderr
    assert "sesame" not in wrong.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--user", "ann"], "no password for 'ann'"),
        (["--user", "ann", "--password-file", "/no/such"], "--password-file /no/such: No such file"),
        (["--password-file", "/no/such"], "--password-file can only be used with --user"),
        (["--ca", "/no/such"], "/no/such cannot be read"),
    ],
)
def test_missing_credentials_are_reported_before_a_prompt(options: list[str], words: str) -> None:
    assert failed(run("topic", "list", "--server", "127.0.0.1:1", *options), 2, words)


@pytest.fixture
def wary(tmp_path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """The address of a broker that wants certificates of clients, the options for TLS, and those for a certificate."""
    authority, folder = trustme.CA(), tmp_path
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "broker.pem"))
    own = authority.issue_cert("client@example.com")
    own.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    own.private_key_pem.write_to_path(str(folder / "client.key"))
    tls = tls_context(str(folder / "broker.pem"), client_ca=str(folder / "ca.pem"))
    with running_broker(folder / "data", tls=tls) as running:
        identity = ["--client-certificate", str(folder / "client.pem"), "--client-key", str(folder / "client.key")]
        yield running.address, ["--ca", str(folder / "ca.pem")], identity


def test_a_command_shows_its_certificate_to_a_broker_that_wants_one(wary: tuple[str, list[str], list[str]]) -> None:
    address, trusted, identity = wary

    put = run("put", "orders", "a", "--server", address, *trusted, *identity)
    without = run("topic", "list", "--server", address, *trusted)

    assert "partition 0, number 0" in put.stdout
    assert failed(without, 1, "certificate of this client")


def test_the_commands_of_a_cluster_show_their_certificate(wary: tuple[str, list[str], list[str]]) -> None:
    address, trusted, identity = wary
    asking = typer.Typer()

    @asking.command()
    @at_brokers
    def ask(brokers: BrokerAccess) -> None:
        typer.echo(brokers.ask(address, SeeClusterRequest()).cluster)

    with_it = CliRunner().invoke(asking, [*trusted, *identity])
    without = CliRunner().invoke(asking, trusted)

    assert (with_it.exit_code, len(with_it.stdout.strip())) == (0, 22)
    assert isinstance(without.exception, ConnectionLost)
    assert "certificate of this client" in str(without.exception)


def test_a_certificate_is_refused_if_nothing_could_show_it(tmp_path: Path) -> None:
    options = ["--client-certificate", "client.pem"]
    here = str(tmp_path / "here")
    run("put", "orders", "a", "--store", here)

    assert failed(run("topic", "list", "--store", here, *options), 2, "--client-certificate can only be used with")
    assert failed(run("topic", "list", "--store", here, "--client-key", "x"), 2, "--client-key can only be used with")
    at_broker = run("dead", "summary", "orders", "--server", "127.0.0.1:1", *options)
    assert failed(at_broker, 2, "Spark shows no certificate to a broker")


def test_a_terminal_is_prompted_for_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[tuple[str, bool]] = []

    def prompt(text: str, *, hide_input: bool, err: bool) -> str:
        prompts.append((text, hide_input and err))
        return SECRET

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.delenv("WARREN_PASSWORD", raising=False)

    assert password_of("ann", None) == SECRET
    assert prompts == [("password of ann", True)]


# --- Commands that read without joining a group ---


def test_groups_dead_letters_and_redrives_are_shown_as_for_files(broker: RunningBroker, tmp_path: Path) -> None:
    with warren.connect(broker.address) as there, warren.open(tmp_path / "data", keeps=False) as here:
        topic = there.topic("orders", partitions=2)
        topic.put_many([b"%d" % number for number in range(9)], keys=[b"%d" % number for number in range(9)])
        with topic.group("readers") as reader, topic.group("workers", mode="queue", attempts_max=1) as workers:
            reader.read(3)
            reader.commit()
            for message in workers.take(6):
                workers.nack(message, reason="no stock")
            workers.redrive(2)
            workers.redrive(numbers={0: [4]})
            same = here.existing_topic("orders")

            assert topic.put_back("workers") == same.put_back("workers") == [(0, 2, [4])]
            assert topic.describe_group("readers") == same.describe_group("readers")
            assert topic.describe_group("workers") == same.describe_group("workers")
            assert list(topic.dead_letters()) == list(same.dead_letters())
            assert len(list(topic.dead_letters("workers"))) == 3
            assert list(topic.dead_letters("others")) == []


# --- Following, and completing ---


def test_following_reads_all_partitions_including_added_ones(broker: RunningBroker) -> None:
    with warren.connect(broker.address) as store:
        topic = store.topic("orders", partitions=2)
        topic.put(b"old", partition=0)
        places = {number: FollowPosition(log, log.end) for number, log in enumerate(topic.logs)}
        every = listening(topic, dict(places), None, sees_all=True)
        some = listening(topic, {1: places[1]}, TagFilter.parse("eu.*"), sees_all=False)
        topic.put(b"a", partition=1, tag="eu.de")

        assert [message.body for message in next(every)] == [b"a"]
        topic.configure(partitions=3)
        topic.put(b"b", partition=0, tag="eu.de")
        topic.put(b"c", partition=2)
        topic.put(b"d", partition=1, tag="eu.fr")
        assert [message.body for message in next(some)] == [b"a", b"d"]
        bodies: list[bytes] = []
        while len(bodies) < 3:
            bodies += [message.body for message in next(every)]
        assert sorted(bodies) == [b"b", b"c", b"d"]


def test_the_shell_completes_from_the_broker_that_is_named(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A user who presses the tab key waits a second at most; a test may run on a slow machine.
    monkeypatch.setattr("warren.cli.options.completion.BROKER_TIMEOUT_S", PATIENCE_S)
    run("put", "orders", "a", "--server", broker.address)
    run("take", "orders", "workers", "--server", broker.address)

    def completed(*words: str) -> list[str]:
        command_line = {"COMP_WORDS": " ".join(("warren", *words)), "COMP_CWORD": str(len(words))}
        environment = {"_WARREN_COMPLETE": "complete_bash", "WARREN_SERVER": broker.address, **command_line}
        return CliRunner().invoke(app, [], env=environment, prog_name="warren").stdout.split()

    assert completed("read", "o") == ["orders"]
    assert completed("take", "orders", "") == ["workers"]
    assert completed("take", "nope", "") == []
