"""The command line of stores, as a person meets it: topics, messages, groups, dead letters and what is scheduled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner, Result

from tests.tidy.source import SOURCE
from warren.cli.main import app
from warren.queue.store import Store

Run = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the store is, or will be."""
    return tmp_path / "data"


@pytest.fixture
def run(place: Path) -> Run:
    """Runs the program in this process, pointed at the store by WARREN_STORE."""

    def run(*arguments: str | Path, columns: int = 80, stdin: bytes | None = None) -> Result:
        environment = {"COLUMNS": str(columns), "WARREN_STORE": str(place)}
        return CliRunner().invoke(app, [str(each) for each in arguments], env=environment, input=stdin)

    return run


def start(place: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """The program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "from warren.cli.main import main; main()", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "WARREN_STORE": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def document(result: Result) -> Any:
    """The one document of JSON that a command wrote."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def objects(result: Result) -> list[Any]:
    """The objects of JSON that a command wrote, one a line."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def bodies(result: Result) -> list[str]:
    return [each["body"] for each in objects(result)]


def failed(result: Result, code: int, words: str) -> bool:
    """Whether a command wrote nothing but one line on stderr, with these words."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    return True


# --- Topics ---


def test_a_topic_is_made_with_its_store_and_shows_its_settings(run: Run, place: Path) -> None:
    result = run("topic", "create", "orders", "--partitions", "3", "--retention-age", "7d", "--block-size", "1MiB")

    assert result.exit_code == 0
    assert "for 7 d" in result.stdout
    with Store(place, keeps=False) as store:
        settings = store.existing_topic("orders").settings
    assert (settings.partitions, settings.retention_age_s, settings.block_size) == (3, 604_800.0, 1 << 20)


def test_every_setting_can_be_given(run: Run) -> None:
    given = {
        "--partitions": "2",
        "--durability": "os",
        "--block-size": "64k",
        "--compression": "zstd",
        "--message-size-max": "10k",
        "--retention-age": "1h",
        "--retention-bytes": "1G",
        "--retention-consumed": "yes",
        "--dead-letter": "graveyard",
        "--format-version": "2",
    }

    result = run("topic", "create", "orders", "--json", *(word for pair in given.items() for word in pair))

    assert document(result)["settings"] == {
        "partitions": 2,
        "version": 2,
        "durability": "os",
        "block_size": 64 << 10,
        "compression": "zstd",
        "message_size_max": 10 << 10,
        "retention_age_s": 3600.0,
        "retention_bytes": 1 << 30,
        "retention_consumed": True,
        "dead_letter": "graveyard",
    }


def test_a_topic_is_not_made_twice_unless_that_is_asked_for(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")

    assert failed(run("topic", "create", "orders"), 1, "`warren topic configure orders`")
    assert run("topic", "create", "orders", "--partitions", "2", "--if-missing").exit_code == 0
    assert failed(run("topic", "create", "orders", "--partitions", "3", "--if-missing"), 2, "partitions=2")


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_has_a_row_for_each_topic_within_the_terminal(run: Run, columns: int) -> None:
    run("put", "orders", "a", "b", "c")
    run("topic", "create", "empty", "--partitions", "4")

    result = run("topic", "list", columns=columns)

    empty, orders = result.stdout.splitlines()[3:]
    assert empty.split()[:4] == ["empty", "4", "0", "0"]
    assert orders.split()[:3] == ["orders", "1", "3"]
    assert max(map(len, result.stdout.splitlines())) <= columns


def test_the_list_of_a_store_without_topics_says_so(run: Run, place: Path) -> None:
    Store(place, keeps=False).close()

    assert run("topic", "list").stdout == "no topics\n"
    assert document(run("topic", "list", "--json")) == []


def test_a_damaged_topic_does_not_hide_the_others(run: Run, place: Path) -> None:
    run("put", "orders", "a")
    run("topic", "create", "broken")
    (place / "topics" / "broken" / "topic.json").write_text("{")

    result = run("topic", "list")

    assert result.exit_code == 0
    assert "orders" in result.stdout
    assert "damaged" in result.stdout
    assert "Traceback" not in result.stderr
    found = {each["topic"]: each for each in document(run("topic", "list", "--json"))}
    assert found["orders"]["messages"] == 1
    assert "topic.json" in found["broken"]["damage"]


def test_describe_shows_settings_and_partitions(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    run("put", "orders", "a", "b", "c", "--partition", "1")

    result = run("topic", "describe", "orders")
    found = document(run("topic", "describe", "orders", "--json"))

    assert "orders.dead" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert [(part["first"], part["end"]) for part in found["partitions"]] == [(0, 0), (0, 3)]
    assert (found["topic"], found["messages"], found["damage"]) == ("orders", 3, None)


def test_configure_changes_what_is_named_and_switches_off_with_none(run: Run) -> None:
    run("topic", "create", "orders", "--retention-age", "7d", "--retention-bytes", "1G")

    changed = document(run("topic", "configure", "orders", "--retention-age", "none", "--partitions", "2", "--json"))

    assert changed["settings"]["retention_age_s"] is None
    assert changed["settings"]["retention_bytes"] == 1 << 30
    assert len(changed["partitions"]) == 2


def test_configure_refuses_what_cannot_be_and_changes_nothing(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    before = document(run("topic", "describe", "orders", "--json"))

    assert failed(run("topic", "configure", "orders"), 2, "nothing to change")
    assert failed(run("topic", "configure", "orders", "--partitions", "1"), 2, "never removed")
    assert failed(run("topic", "configure", "orders", "--durability", "never"), 2, "durability")
    assert failed(run("topic", "configure", "nope", "--partitions", "2"), 1, "`warren topic list`")

    assert document(run("topic", "describe", "orders", "--json")) == before


def test_a_topic_is_deleted_only_by_those_who_are_sure(run: Run, place: Path) -> None:
    run("put", "orders", "a", "b")

    assert failed(run("topic", "delete", "orders", stdin=b"y\n"), 2, "--yes")
    assert run("topic", "delete", "orders", "--yes").stdout == "deleted orders with 2 messages\n"

    assert failed(run("topic", "delete", "orders", "--yes"), 1, "no topic 'orders'")
    assert list((place / "topics").iterdir()) == []


# --- Putting ---


def test_arguments_are_messages_and_the_receipt_says_where_they_went(run: Run) -> None:
    first = run("put", "orders", "10 carrots")
    second = run("put", "orders", "3 turnips", "1 leek")

    assert first.stdout == "partition 0, number 0\n"
    assert "made the topic orders" in first.stderr
    assert (second.stdout, second.stderr) == ("partition 0, numbers 1 to 2\n", "")
    assert bodies(run("read", "orders", "--json")) == ["10 carrots", "3 turnips", "1 leek"]


def test_receipts_as_json_name_the_place_of_each_message(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")

    receipts = objects(run("put", "orders", "a", "b", "--partition", "1", "--json"))

    assert receipts == [
        {"topic": "orders", "partition": 1, "number": 0},
        {"topic": "orders", "partition": 1, "number": 1},
    ]


def test_quiet_says_nothing_at_all(run: Run) -> None:
    assert run("put", "orders", "a", "--quiet").output == ""


def test_key_tag_and_headers_are_those_of_every_message(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "4")

    run("put", "orders", "a", "b", "--key", "customer-7", "--tag", "eu.de", "-H", "trace=1", "-H", "note=x=y")

    found = objects(run("read", "orders", "--json"))
    assert len({each["partition"] for each in found}) == 1
    assert [(each["body"], each["key"], each["tag"], each["headers"]) for each in found] == [
        (body, "customer-7", "eu.de", {"trace": "1", "note": "x=y"}) for body in ("a", "b")
    ]


@pytest.mark.parametrize(
    ("options", "stdin", "expected"),
    [
        ([], b"one\ntwo\n", ["one", "two"]),
        ([], b"one\n\nlast", ["one", "", "last"]),
        ([], b"", []),
        (["--lines"], b"a\r\n", ["a\r"]),
        (["-0"], b"one\ntwo\0three\0", ["one\ntwo", "three"]),
        (["--file", "-"], b"one\ntwo\n", ["one\ntwo\n"]),
    ],
)
def test_stdin_is_one_message_a_line_unless_something_else_is_said(
    run: Run, options: list[str], stdin: bytes, expected: list[str]
) -> None:
    assert run("put", "orders", *options, stdin=stdin).exit_code == 0

    assert bodies(run("read", "orders", "--json")) == expected


def test_a_file_is_one_message_or_its_lines_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(b"a\nb\n")
    (tmp_path / "second").write_bytes(b"\xff")
    files = ("--file", tmp_path / "first", "--file", tmp_path / "second")

    run("put", "whole", *files)
    run("put", "lines", *files, "--lines")

    assert bodies(run("read", "whole", "--json")) == ["a\nb\n", {"base64": "/w=="}]
    assert bodies(run("read", "lines", "--json")) == ["a", "b", {"base64": "/w=="}]


def test_bytes_that_are_not_text_are_put_and_read_as_they_are(place: Path) -> None:
    with start(place, "put", "orders", "--quiet", os.fsdecode(b"\xff\xfe")) as putting:
        putting.communicate(timeout=60)
    with start(place, "read", "orders", "--body") as reading:
        output, _ = reading.communicate(timeout=60)

    assert (putting.returncode, output) == (0, b"\xff\xfe\n")


def test_lines_are_put_as_they_arrive_and_do_not_wait_for_the_end(place: Path) -> None:
    with start(place, "put", "orders", "--json") as putting:
        for number in range(3):
            pipe(putting.stdin).write(b"line %d\n" % number)
            pipe(putting.stdin).flush()

            assert json.loads(pipe(putting.stdout).readline())["number"] == number

        pipe(putting.stdin).write(b"no line break")
        pipe(putting.stdin).close()
        assert json.loads(pipe(putting.stdout).readline())["number"] == 3
        assert putting.wait(60) == 0


def test_many_lines_share_their_receipts_by_partition(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2", "--durability", "os")
    count = 400_000

    result = run("put", "orders", stdin=b"".join(b"order %d\n" % number for number in range(count)))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["partition 0", "partition 1"]
    assert sum(int(line.split()[-1]) + 1 for line in lines) == count


def test_a_body_over_the_limit_ends_the_put_and_keeps_what_came_before(run: Run) -> None:
    run("topic", "create", "orders", "--message-size-max", "10")

    result = run("put", "orders", "short", "far too long for it")

    assert failed(result, 2, "over the limit of 10 bytes")
    assert bodies(run("read", "orders", "--json")) == []


def test_the_durability_of_a_put_is_not_that_of_the_topic(run: Run) -> None:
    run("put", "orders", "a", "--durability", "os")

    assert document(run("topic", "describe", "orders", "--json"))["settings"]["durability"] == "commit"
    assert bodies(run("read", "orders", "--json")) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["put", "../orders", "a"], "topic name"),
        (["put", "orders", "a", "--header", "trace"], "NAME=VALUE"),
        (["put", "orders", "a", "--header", "=1"], "NAME=VALUE"),
        (["put", "orders", "a", "--durability", "always"], "durability"),
        (["put", "orders", "a", "--file", "-"], "not both"),
        (["put", "orders", "a", "--lines"], "not both"),
        (["put", "orders", "--file", "/"], "is a directory"),
        (["topic", "create", ".."], "topic name"),
        (["topic", "create", "orders", "--retention-age", "soon"], "expected a duration"),
        (["topic", "create", "orders", "--block-size", "1"], "block_size"),
        (["topic", "create", "orders", "--retention-consumed", "maybe"], "yes or no"),
    ],
)
def test_wrong_input_makes_no_store(run: Run, place: Path, arguments: list[str], words: str) -> None:
    assert failed(run(*arguments), 2, words)
    assert not place.exists()


def test_a_file_that_is_missing_makes_no_store(run: Run, place: Path, tmp_path: Path) -> None:
    assert failed(run("put", "orders", "--file", tmp_path / "nope"), 1, "No such file")
    assert not place.exists()


# --- Reading ---


@pytest.fixture
def orders(run: Run, place: Path) -> Run:
    """Nine messages in three partitions, put one by one: number `n` of partition `p` is `3n + p`."""
    with Store(place, keeps=False) as store:
        topic = store.topic("orders", partitions=3, durability="os")
        for number in range(9):
            topic.put(b"%d" % number, partition=number % 3, tag=f"eu.{'de' if number < 5 else 'fr'}")
            store.clock.sleep(0.001)
    return run


def numbers(result: Result) -> list[int]:
    return [int(body) for body in bodies(result)]


def test_partitions_are_merged_by_time(orders: Run) -> None:
    assert numbers(orders("read", "orders", "--json")) == list(range(9))


def test_a_line_has_place_time_tag_key_headers_and_body(orders: Run) -> None:
    fields = orders("read", "orders", "--last", "1").stdout.rstrip("\n").split("\t")

    assert (fields[0], fields[2:]) == ("2:2", ["eu.fr", "", "", "8"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--last", "2"], [7, 8]),
        (["--last", "0"], []),
        (["--last", "99"], list(range(9))),
        (["--last", "2", "--tag", "eu.de"], [3, 4]),
        (["--partition", "1"], [1, 4, 7]),
        (["--partition", "1", "--from", "1"], [4, 7]),
        (["--partition", "1", "--from", "1", "--last", "9"], [4, 7]),
        (["--partition", "1", "--from", "3"], []),
        (["--tag", "*.fr"], [5, 6, 7, 8]),
        (["--tag", "eu"], []),
        (["--limit", "4"], [0, 1, 2, 3]),
        (["--limit", "0"], []),
        (["--since", "1h"], list(range(9))),
        (["--since", "1h", "--last", "1"], [8]),
        (["--until", "1h"], []),
        (["--since", "2100-01-01"], []),
    ],
)
def test_what_is_read_is_what_was_asked_for(orders: Run, options: list[str], expected: list[int]) -> None:
    assert numbers(orders("read", "orders", "--json", *options)) == expected


def test_since_and_until_are_the_times_that_the_lines_show(orders: Run) -> None:
    times = [line.split("\t")[1] for line in orders("read", "orders").stdout.splitlines()]

    assert numbers(orders("read", "orders", "--json", "--since", times[2], "--until", times[6])) == [2, 3, 4, 5]
    assert numbers(orders("read", "orders", "--json", "--since", times[2], "--last", "9", "--until", times[4])) == [
        2,
        3,
    ]


def test_bodies_alone_are_what_was_put(orders: Run) -> None:
    assert orders("read", "orders", "--body", "--limit", "2").stdout == "0\n1\n"


def test_reading_takes_nothing_away(orders: Run) -> None:
    assert orders("read", "orders").stdout == orders("read", "orders").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["orders", "--from", "0"], 2, "name one with --partition"),
        (["orders", "--partition", "3"], 2, "partitions 0 to 2"),
        (["orders", "--tag", "a..b"], 2, "tag filter"),
        (["orders", "--since", "yesterday"], 2, "expected a time"),
        (["orders", "--follow", "--until", "1h"], 2, "without --until"),
        (["nope"], 1, "no topic 'nope'"),
    ],
)
def test_what_cannot_be_read_is_one_line(orders: Run, arguments: list[str], code: int, words: str) -> None:
    assert failed(orders("read", *arguments), code, words)


def test_a_retired_number_says_where_the_partition_starts(run: Run, place: Path) -> None:
    run("topic", "create", "orders", "--block-size", "4k", "--durability", "os")
    with Store(place, keeps=False) as store:
        topic = store.topic("orders")
        for _ in range(20):
            topic.put(b"." * 1000)
        first = topic.partition(0).retire(before=10)

    assert failed(run("read", "orders", "--from", "0"), 1, f"start from {first}")
    assert [each["number"] for each in objects(run("read", "orders", "--json"))] == list(range(first, 20))


def test_following_shows_what_other_processes_put_until_interrupted(orders: Run, place: Path) -> None:
    with start(place, "read", "orders", "--follow", "--last", "1", "--tag", "eu.fr", "--body") as following:
        assert pipe(following.stdout).readline() == b"8\n"

        orders("put", "orders", "passed over", "--tag", "eu.de")
        for partition in ("2", "0"):
            orders("put", "orders", f"new in {partition}", "--tag", "eu.fr", "--partition", partition)
            assert pipe(following.stdout).readline() == f"new in {partition}\n".encode()
        following.send_signal(signal.SIGINT)

        assert following.wait(60) == 0
        assert pipe(following.stderr).read() == b""


def test_following_ends_by_itself_at_its_limit(orders: Run, place: Path) -> None:
    with start(place, "read", "orders", "--follow", "--limit", "10", "--body") as following:
        assert [pipe(following.stdout).readline() for _ in range(9)] == [b"%d\n" % number for number in range(9)]

        orders("put", "orders", "tenth", "eleventh")

        assert pipe(following.stdout).read() == b"tenth\n"
        assert following.wait(60) == 0


def test_following_a_topic_that_is_deleted_ends_with_1(orders: Run, place: Path) -> None:
    with start(place, "read", "orders", "--follow", "--last", "1", "--body") as following:
        assert pipe(following.stdout).readline() == b"8\n"

        orders("topic", "delete", "orders", "--yes")

        assert following.wait(60) == 1
        assert b"no topic 'orders'" in pipe(following.stderr).read()


# --- The store ---


LOOKING = [
    ["topic", "list"],
    ["topic", "describe", "orders"],
    ["topic", "configure", "orders", "--partitions", "2"],
    ["topic", "delete", "orders", "--yes"],
    ["read", "orders"],
]


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
@pytest.mark.parametrize(
    ("kind", "reason"), [("missing", "no such directory"), ("file", "it is a file"), ("strangers", "another directory")]
)
def test_looking_makes_no_store(run: Run, place: Path, arguments: list[str], kind: str, reason: str) -> None:
    if kind == "file":
        place.write_text("a file")
    elif kind == "strangers":
        place.mkdir()
        (place / "photo.jpg").touch()
    before = sorted(place.parent.rglob("*"))

    result = run(*arguments)

    assert failed(result, 1, reason)
    assert "--store" in result.stderr
    assert sorted(place.parent.rglob("*")) == before


def test_the_option_names_the_store_before_the_environment_does(run: Run, place: Path, tmp_path: Path) -> None:
    run("put", "orders", "here")

    run("put", "orders", "there", "--store", tmp_path / "other")

    assert bodies(run("read", "orders", "--json")) == ["here"]
    assert bodies(run("read", "orders", "--json", "-s", tmp_path / "other")) == ["there"]


def test_the_store_is_data_below_the_current_directory_if_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARREN_STORE", raising=False)

    CliRunner().invoke(app, ["put", "orders", "a"])

    assert (tmp_path / "data" / "store.json").exists()
