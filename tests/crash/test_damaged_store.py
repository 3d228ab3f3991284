"""A store whose journal of transactions, or whose `store.json`, is damaged: what still works, and
how it is repaired.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import warren
from warren.cli.main import app
from warren.errors import CorruptSettings, JournalDamaged, StoreInUse
from warren.message import Message
from warren.transaction.salvage import Salvage, Salvaged

FLIPS: Final = 12
RUNNER: Final = CliRunner()

Wound = Callable[[Path], None]


def make(path: Path) -> None:
    """Makes a store with messages, a finished transaction, a prepared one, and one that holds messages."""
    with warren.open(path, keeps=False) as store:
        store.topic("orders").put_many([b"%d" % number for number in range(3)])
        with store.transaction(id="ended") as ended:
            ended.put("orders", b"ended")
            ended.put("bills", b"ended")
        waiting = store.transaction(id="waiting")
        waiting.put("orders", b"waiting")
        waiting.put("bills", b"waiting")
        with store.topic("jobs").group("workers", mode="queue", lease=1000.0) as group:
            store.topic("jobs").put(b"job")
            message = group.take()
            assert isinstance(message, Message)
            waiting.ack(group, message)
            waiting.prepare()
        queue = store.queue("shelf")
        queue.put("one")
        assert queue.get() == "one"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "data"
    make(path)
    return path


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def journal_files(path: Path, suffix: str) -> list[Path]:
    return sorted(file for file in (path / "transactions" / "journal").iterdir() if file.name.endswith(suffix))


def empty(path: Path) -> None:
    for file in journal_files(path, ".block"):
        file.write_bytes(b"")


def cut(path: Path) -> None:
    for file in journal_files(path, ".block"):
        content = file.read_bytes().rstrip(b"\0")
        file.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    (file,) = journal_files(path, ".block")
    content = bytearray(file.read_bytes())
    place = len(content.rstrip(b"\0")) - 20
    content[place] ^= 0x10
    file.write_bytes(content)


def put_garbage_into_index(path: Path) -> None:
    (file,) = journal_files(path, "index")
    file.write_bytes(Random(7).randbytes(64) + file.read_bytes()[64:])


def put_garbage_into_block(path: Path) -> None:
    (file,) = journal_files(path, ".block")
    file.write_bytes(Random(7).randbytes(file.stat().st_size))


WOUNDS: Final[list[Wound]] = [empty, cut, flip, put_garbage_into_index, put_garbage_into_block]


def bodies(store: warren.Store, topic: str) -> list[bytes]:
    return [message.body for message in store.topic(topic).partition(0).read(0)]


def repaired(path: Path, *arguments: str) -> Any:
    result = RUNNER.invoke(app, ["store", "repair", "--store", str(path), "--json", "--yes", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("wound", WOUNDS)
def test_with_a_damaged_journal_topics_are_read_and_put_to(data: Path, wound: Wound) -> None:
    wound(data)

    with warren.open(data, keeps=False) as store:
        assert bodies(store, "orders") == [b"0", b"1", b"2", b"ended"]
        assert store.topic("orders").put(b"plain").number == 4
        assert store.topic("new").put(b"first").number == 0
        store.keep()


@pytest.mark.parametrize("wound", WOUNDS)
def test_with_a_damaged_journal_transactions_raise_with_advice(data: Path, wound: Wound) -> None:
    wound(data)

    with warren.open(data, keeps=False) as store:
        for operation in _what_needs_the_journal(store):
            with pytest.raises(JournalDamaged, match="warren store repair"):
                operation()


def _what_needs_the_journal(store: warren.Store) -> Iterator[Callable[[], object]]:
    yield store.transaction
    yield lambda: store.transaction(id="another")
    yield lambda: store.commit("waiting")
    yield lambda: store.abort("waiting")
    yield lambda: store.transaction_state("waiting")
    yield lambda: store.commit_batch("job", 1, [])
    yield store.recover


def test_with_a_damaged_journal_messages_held_by_a_dead_process_stay_held(data: Path) -> None:
    """The damaged part may contain a commit that acknowledges the message, or that moves the position of its group."""
    with warren.open(data, keeps=False) as store, store.topic("orders").group("readers", start="start") as group:
        assert len(group.read(10)) == 4
    put_garbage_into_index(data)

    with (
        warren.open(data, keeps=False) as store,
        pytest.raises(JournalDamaged),
        store.topic("orders").group("readers", start="start") as group,
    ):
        group.read(10)


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_repair_sets_the_journal_aside_and_transactions_continue(data: Path, wound: Wound) -> None:
    wound(data)
    damaged = {file.name: file.read_bytes() for file in journal_files(data, "")}

    report = repaired(data)

    aside = Path(report["journal"]["path"])
    contents = {file.name: file.read_bytes() for file in aside.iterdir()}
    assert {name: contents[name] for name in damaged if name.endswith(".block")} == {
        name: content for name, content in damaged.items() if name.endswith(".block")
    }
    assert report["journal"]["damage"]
    assert report["store_json"] is None
    assert report["given_back"] == [{"topic": "jobs", "group": "workers", "transactions": 1}]
    assert sorted(path.name for path in aside.parent.iterdir() if path.is_dir()) == ["journal", aside.name]
    with warren.open(data, keeps=False) as store:
        with store.transaction(id="waiting") as again:
            again.put("orders", b"again")
            again.put("bills", b"again")
        assert bodies(store, "orders") == [b"0", b"1", b"2", b"ended", b"again"]
        with store.topic("jobs").group("workers", mode="queue", lease=1000.0) as group:
            message = group.take()
            assert isinstance(message, Message)
            assert message.body == b"job"


@pytest.mark.parametrize("wound", [put_garbage_into_index, None])
def test_the_readable_part_of_a_journal_is_reported(data: Path, wound: Wound | None) -> None:
    """Everything after a damaged index; without its last event, if that one is damaged, everything before it."""
    if wound is not None:
        wound(data)
    else:
        with warren.open(data, keeps=False) as store:
            store.commit_batch("spark", 7, [])
        flip(data)

    report = repaired(data)["journal"]

    (doubt,) = report["doubts"]
    assert (doubt["id"], doubt["state"]) == ("waiting", "prepared")
    assert (doubt["message_count"], doubt["topics"], doubt["ack_count"]) == (2, ["bills", "orders"], 1)
    assert report["record_count"] > 0


def test_the_new_journal_has_the_versions_of_applications(data: Path) -> None:
    with warren.open(data, keeps=False) as store:
        store.commit_batch("spark", 7, [])
    put_garbage_into_index(data)

    report = repaired(data)["journal"]

    assert report["applications"] == {"spark": 7}
    with warren.open(data, keeps=False) as store:
        assert store.last_version("spark") == 7
        assert store.transaction_state("ended") == "done"


@pytest.mark.parametrize("part", range(2))
def test_a_journal_with_any_byte_flipped_keeps_no_message_from_being_read(data: Path, part: int) -> None:
    """Each file of the journal in turn: the store opens, and is undamaged after a repair."""
    random = Random(part)
    for file in journal_files(data, "index" if part else ".block"):
        whole = file.read_bytes()
        size = len(whole.rstrip(b"\0"))
        for _ in range(FLIPS):
            wounded = bytearray(whole)
            wounded[random.randrange(size)] ^= 1 << random.randrange(8)
            shutil.copytree(data, data.parent / "wounded")
            (data.parent / "wounded" / file.relative_to(data)).write_bytes(wounded)

            with warren.open(data.parent / "wounded", keeps=False) as store:
                assert bodies(store, "orders")[:4] == [b"0", b"1", b"2", b"ended"]
            Salvage(str(data.parent / "wounded")).run()
            with warren.open(data.parent / "wounded", keeps=False) as store, store.transaction() as more:
                more.put("orders", b"more")
                more.put("bills", b"more")
            shutil.rmtree(data.parent / "wounded")


# --- store.json ---


@pytest.mark.parametrize("content", ["", "{", "\0" * 80, "[1]", '{"id": "x"}', '{"version": "one"}'])
def test_a_damaged_store_json_raises_with_advice_and_can_be_rebuilt(data: Path, content: str) -> None:
    (data / "store.json").write_text(content)
    with pytest.raises(CorruptSettings, match="warren store repair"):
        warren.open(data)

    report = repaired(data)

    assert report["store_json"]["damage"]
    assert report["journal"] is None
    assert report["given_back"] == [], "what a transaction holds that is known stays held"
    assert (data / "store.json.damaged").read_text() == content
    with warren.open(data, keeps=False) as store:
        assert store.id == report["store_json"]["id"]
        assert bodies(store, "orders") == [b"0", b"1", b"2", b"ended"]
        assert [prepared.id for prepared in store.recover()] == ["waiting"]


def test_the_id_of_a_store_is_kept_if_it_can_be_read(data: Path) -> None:
    whole = (data / "store.json").read_text()
    (data / "store.json").write_text(whole[:-4])

    assert repaired(data)["store_json"]["id"] == json.loads(whole)["id"]


def test_a_store_json_that_is_missing_is_made(data: Path) -> None:
    (data / "store.json").unlink()

    assert repaired(data)["store_json"]["damage"] == "the file does not exist"


def test_a_store_of_a_later_release_is_left_alone(data: Path) -> None:
    (data / "store.json").write_text('{"version": 99, "id": "x"}')

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(data), "--yes"])

    assert result.exit_code == 1
    assert "version 99" in result.stderr
    assert json.loads((data / "store.json").read_text())["version"] == 99


# --- The command ---


def test_a_whole_store_has_nothing_to_repair(data: Path) -> None:
    before = {file: file.read_bytes() for file in (data / "transactions" / "journal").iterdir()}

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(data)])

    assert (result.exit_code, result.stdout) == (0, "undamaged: there was nothing to repair\n")
    assert {file: file.read_bytes() for file in (data / "transactions" / "journal").iterdir()} == before
    assert repaired(data) == {"store_json": None, "journal": None, "given_back": []}


def test_a_store_that_is_open_elsewhere_is_not_repaired(data: Path) -> None:
    put_garbage_into_index(data)
    with warren.open(data, keeps=False):
        with pytest.raises(StoreInUse, match="1 other program"):
            Salvage(str(data)).run()
        assert [path.name for path in (data / "transactions").iterdir() if "damaged" in path.name] == []

    assert Salvage(str(data)).run().journal is not None


def test_damaged_files_are_not_changed_without_confirmation(data: Path) -> None:
    put_garbage_into_index(data)

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(data)])

    assert result.exit_code == 2
    assert "--yes" in result.stderr
    with warren.open(data, keeps=False) as store, pytest.raises(JournalDamaged):
        store.recover()


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_terminal_is_requested_confirmation(data: Path, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "store.json").write_text("")
    put_garbage_into_index(data)
    monkeypatch.setattr("warren.cli.commands.store_repair._is_terminal", lambda: True)

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(data)], input=f"{answer}\n{answer}\n")

    assert (result.exit_code == 0) == (answer == "y")
    if answer == "y":
        assert "rebuilt store.json" in result.stdout
        assert "waiting" in result.stdout
        assert "gave back the messages of group workers of jobs that 1 transaction held" in result.stdout
        warren.open(data, keeps=False).close()


def test_an_empty_journal_is_reported(data: Path) -> None:
    empty(data)

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(data), "--yes"])

    assert "it is unreadable: any transaction may be in doubt" in result.stdout


@pytest.mark.parametrize("name", ["nothing", "file", "directory"])
def test_a_directory_that_is_not_a_store_is_not_changed_into_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()

    result = RUNNER.invoke(app, ["store", "repair", "--store", str(tmp_path / name), "--yes"])

    assert result.exit_code == 1
    assert str(tmp_path / name) in result.stderr.replace("\n", "")


def test_a_repair_that_stopped_half_way_is_done_again(data: Path) -> None:
    put_garbage_into_index(data)
    for name in ("journal.copy", "journal.new"):
        shutil.copytree(data / "transactions" / "journal", data / "transactions" / name)

    salvaged: Salvaged = Salvage(str(data)).run()

    assert salvaged.journal is not None
    assert len(salvaged.journal.doubts) == 1
