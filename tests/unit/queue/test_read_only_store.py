"""A store that is opened read-only, or only if it exists: nothing is ever created or changed."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import warren
from tests.support.patience import run
from warren.cli.main import app
from warren.errors import LogClosed, NoSuchTopic, NotAStore, ReadOnlyStore


def snapshot(path: Path) -> dict[str, tuple[int, bytes]]:
    """Returns every file below `path`, with its mode and its bytes."""
    files = [each for each in sorted(path.rglob("*")) if each.is_file()]
    return {str(each): (stat.S_IMODE(each.stat().st_mode), each.read_bytes()) for each in files}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A store with everything in it, closed."""
    path = tmp_path / "data"
    with warren.open(path, keeps=False) as store:
        topic = store.topic("orders", partitions=2)
        topic.put_many([b"0", b"1", b"2", b"3"], partition=0)
        topic.put(b"4", partition=1)
        topic.put(b"later", delay=1000.0)
        with topic.group("s") as stream:
            stream.read(3)
            stream.commit()
        with topic.group("q", mode="queue") as workers:
            workers.ack(workers.take(1)[0])
            workers.reject(workers.take(1)[0], "no")
        store.queue("jobs").put(1)
    return path


@pytest.fixture
def store(data: Path) -> Iterator[warren.Store]:
    with warren.open(data, read_only=True) as store:
        yield store


# --- Missing files are not created ---


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, options: dict[str, bool]) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("x")

    for name, words in (("none", "no such directory"), ("other", "another directory"), ("file", "a file")):
        with pytest.raises(NotAStore, match=words):
            warren.open(tmp_path / name, **options)

    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "other"]


def test_an_existing_store_is_opened_and_written_with_create_false(data: Path) -> None:
    with warren.open(data, create=False) as store:
        assert store.topic("orders").put(b"5", partition=1).number == 1


def test_asyncio_opens_an_existing_store_read_only(tmp_path: Path, data: Path) -> None:
    async def main() -> None:
        with pytest.raises(NotAStore):
            await warren.aio.open(tmp_path / "none", create=False)
        async with warren.aio.open(data, read_only=True) as store:
            topic = await store.topic("orders")
            assert len(await topic.last(10)) == 5
            with pytest.raises(ReadOnlyStore):
                await topic.put(b"x")

    run(main())


# --- Reading ---


def test_everything_can_be_read_and_not_a_byte_is_changed(data: Path) -> None:
    before = snapshot(data)

    with warren.open(data, read_only=True) as store:
        topic = store.topic("orders")
        assert store.topics() == ["jobs", "orders", "orders.dead"]
        assert len(topic.last(10)) == len(list(topic.since(0))) == len(list(topic.between(0, 1 << 60))) == 5
        assert topic.describe().groups == ["q", "s"]
        assert [message.body for message in topic.broadcast(start=dict.fromkeys((0, 1), 0), wait=0.0)] != []
        assert [each.body for each in topic.scheduled()] == [b"later"]
        assert [letter.reason for letter in topic.dead_letters("q")] == ["no"]
        assert topic.describe_group("s").behind == 2
        described = topic.describe_group("q")
        assert (described.behind, described.leased) == (3, 0)
        assert store.topic("jobs").last(1)[0].body == b"1"
        assert topic.partition(0).verify() is not None

    assert snapshot(data) == before


def test_a_read_only_store_shows_new_messages_members_and_leases_of_a_writer(data: Path) -> None:
    with warren.open(data, keeps=False) as writer, warren.open(data, read_only=True) as store:
        topic = store.topic("orders")
        with writer.topic("orders").group("s") as member, writer.topic("orders").group("q", mode="queue") as workers:
            workers.take(2)
            writer.topic("orders").put(b"new", partition=1)

            assert topic.partition(1).wait(1, 10.0)
            assert [message.body for message in topic.partition(1).read(1)] == [b"new"]
            assert topic.describe_group("s").members == [member.id]
            assert topic.describe_group("q").leased == 2
        assert topic.describe_group("s").members == []


WRITES: dict[str, Callable[[warren.Store], object]] = {
    "topic": lambda store: store.topic("new"),
    "put": lambda store: store.topic("orders").put(b"x"),
    "put later": lambda store: store.topic("orders").put(b"x", delay=1.0),
    "put_many": lambda store: store.topic("orders").put_many([b"x"]),
    "batching": lambda store: store.batching().put("orders", b"x"),
    "configure": lambda store: store.topic("orders").configure(retention_bytes=1),
    "add partitions": lambda store: store.configure_topic("orders", {"partitions": 3}),
    "delete": lambda store: store.delete_topic("orders"),
    "cancel": lambda store: store.topic("orders").cancel(next(store.topic("orders").scheduled()).id),
    "retire": lambda store: store.topic("orders").retire(),
    "group": lambda store: store.topic("orders").group("s"),
    "new group": lambda store: store.topic("orders").group("other", mode="queue"),
    "configure group": lambda store: store.topic("orders").configure_group("q", lease=1.0),
    "delete group": lambda store: store.topic("orders").delete_group("q"),
    "queue": lambda store: store.queue("jobs"),
    "transaction": lambda store: store.transaction(),
    "commit": lambda store: store.commit("x"),
    "producer": lambda store: store.producer("p"),
    "keep": lambda store: store.keep(),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_change_raises_and_changes_nothing(data: Path, write: str) -> None:
    before = snapshot(data)

    with (
        warren.open(data, read_only=True) as store,
        pytest.raises(ReadOnlyStore, match="was opened with read_only=True: nothing can be changed"),
    ):
        WRITES[write](store)

    assert snapshot(data) == before


def test_the_log_of_a_partition_takes_nothing_either(store: warren.Store) -> None:
    with pytest.raises(LogClosed, match="read_only"):
        store.topic("orders").partition(0).append(b"x")
    with pytest.raises(NoSuchTopic):
        store.existing_topic("new")


# --- As a user who may only read ---


@pytest.mark.parametrize(
    "command",
    [
        ("read", "orders"),
        ("topic", "list"),
        ("topic", "describe", "orders"),
        ("group", "list"),
        ("group", "lag", "orders", "q"),
        ("dead", "list", "orders"),
        ("scheduled", "list"),
    ],
)
def test_commands_that_only_read_work_in_a_store_that_may_only_be_read(
    data: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = CliRunner().invoke(app, [*command, "--store", str(data)], env={"COLUMNS": "120"})
    whole = warren.open

    def forbidding(path: Any, **options: Any) -> warren.Store:
        # As the system answers a user who may not write. The user that runs the tests may be root.
        if not options.get("read_only"):
            raise PermissionError(13, "Permission denied", f"{path}/store.lock")
        return whole(path, **options)

    monkeypatch.setattr(warren, "open", forbidding)
    before = snapshot(data)
    result = CliRunner().invoke(app, [*command, "--store", str(data)], env={"COLUMNS": "120"})

    assert (result.exit_code, result.stderr) == (0, "")
    # The remaining wait of a message changes from one read to the next.
    remaining = re.compile(r"\d+\.\d min")
    assert remaining.sub("a while", result.stdout) == remaining.sub("a while", expected.stdout)
    assert snapshot(data) == before


def test_a_command_that_writes_reports_the_missing_permission(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidding(path: Any, **options: Any) -> warren.Store:
        raise PermissionError(13, "Permission denied", f"{path}/store.lock")

    monkeypatch.setattr(warren, "open", forbidding)
    result = CliRunner().invoke(app, ["put", "orders", "x", "--store", str(data)])

    assert result.exit_code == 1
    assert "Permission denied" in result.stderr
