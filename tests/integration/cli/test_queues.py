"""The command line of stores for a person: topics, messages, groups, dead letters and parked messages."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner, Result

import warren
from tests.support.broker.running import running_broker
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT, SOURCE
from warren.cli.commands.read import FollowPosition, following, places_behind, spans_of
from warren.cli.main import app
from warren.cli.output.receipts import Receipts
from warren.cli.running.bodies import lines
from warren.errors import TooLarge
from warren.queue.group_description import describe_group

Run = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The path of the store, which may not exist yet."""
    return tmp_path / "data"


both = pytest.mark.parametrize("pointed_at", ["directory", "server"], indirect=True)
"""The output is the same for an embedded store and for one behind a broker."""


@pytest.fixture
def pointed_at(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "directory"))


@pytest.fixture
def run(place: Path, pointed_at: str) -> Iterator[Run]:
    """Runs the program in this process; WARREN_STORE names the store, or WARREN_SERVER its broker."""
    if pointed_at == "directory":
        yield runner(WARREN_STORE=str(place))
        return
    with running_broker(place, durability="commit") as broker:
        yield runner(WARREN_SERVER=broker.address)


def runner(**pointing: str) -> Run:
    def run(*arguments: str | Path, columns: int = 80, stdin: bytes | None = None) -> Result:
        environment = {"COLUMNS": str(columns), **pointing}
        return CliRunner().invoke(app, [str(each) for each in arguments], env=environment, input=stdin)

    return run


def start(place: Path, *arguments: str | Path, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Starts the program in its own process."""
    return subprocess.Popen(
        [sys.executable, "-c", "from warren.cli.main import main; main()", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "WARREN_STORE": str(place)},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def document(result: Result) -> Any:
    """Returns the one JSON document that a command wrote."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def objects(result: Result) -> list[Any]:
    """Returns the JSON objects that a command wrote, one per line."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def bodies(result: Result) -> list[str]:
    return [each["body"] for each in objects(result)]


def failed(result: Result, code: int, words: str) -> bool:
    """Returns whether a command wrote only one line on stderr, with these words."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    return True


# --- Topics ---


def test_a_topic_is_made_with_its_store_and_shows_its_settings(run: Run, place: Path) -> None:
    result = run("topic", "create", "orders", "--partitions", "3", "--retention-age", "7d", "--block-size", "1MiB")

    assert result.exit_code == 0
    assert "for 7 d" in result.stdout
    with warren.open(place, keeps=False) as store:
        settings = store.existing_topic("orders").settings
    assert (settings.partitions, settings.retention_age_s, settings.block_size) == (3, 604_800.0, 1 << 20)


@both
def test_every_setting_can_be_given(run: Run) -> None:
    options = {
        "--partitions": "2",
        "--durability": "os",
        "--block-size": "64k",
        "--compression": "zstd",
        "--message-size-max": "10k",
        "--retention-age": "1h",
        "--retention-bytes": "1G",
        "--retention-consumed": "yes",
        "--dead-letter": "graveyard",
        "--deliver-at": "plain",
        "--replication": "async",
        "--format-version": "2",
    }

    result = run("topic", "create", "orders", "--json", *(word for pair in options.items() for word in pair))

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
        "deliver_at": "plain",
        "replication": "async",
    }


@both
def test_a_topic_decides_whether_the_header_of_kafka_clients_delays_or_leaves_it_to_the_broker(run: Run) -> None:
    run("topic", "create", "orders")

    on = document(run("topic", "configure", "orders", "--deliver-at", "all", "--json"))
    off = document(run("topic", "configure", "orders", "--deliver-at", "none", "--json"))
    result = run("topic", "configure", "orders", "--deliver-at", "default")

    assert (on["settings"]["deliver_at"], off["settings"]["deliver_at"]) == ("all", "none")
    assert "as the broker is configured" in result.output


@both
def test_a_topic_is_not_created_twice_unless_that_is_requested(run: Run) -> None:
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


def test_listing_a_store_without_topics_prints_that(run: Run, place: Path) -> None:
    warren.open(place, keeps=False).close()

    assert run("topic", "list").stdout == "no topics\n"
    assert document(run("topic", "list", "--json")) == []


def test_a_damaged_topic_does_not_hide_the_others(run: Run, place: Path) -> None:
    run("put", "orders", "a")
    run("topic", "create", "broken")
    (place / "topics" / "broken" / "topic.json").write_text("{")

    with start(place, "topic", "list") as listing:
        output, complaint = listing.communicate(timeout=60)

    assert listing.returncode == 0
    assert b"orders" in output
    assert b"damaged" in output
    # The store reports once that it cannot maintain the topic, in one line like any other failure.
    assert [b"topic.json" in line for line in complaint.splitlines()] == [True]
    topics = {each["topic"]: each for each in document(run("topic", "list", "--json"))}
    assert topics["orders"]["messages"] == 1
    assert "topic.json" in topics["broken"]["damage"]


@both
def test_describe_shows_settings_and_partitions(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    run("put", "orders", "a", "b", "c", "--partition", "1")

    result = run("topic", "describe", "orders")
    description = document(run("topic", "describe", "orders", "--json"))

    assert "orders.dead" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert [(part["first"], part["end"]) for part in description["partitions"]] == [(0, 0), (0, 3)]
    assert (description["topic"], description["messages"]) == ("orders", 3)


@both
def test_configure_changes_the_named_settings_and_none_switches_off(run: Run) -> None:
    run("topic", "create", "orders", "--retention-age", "7d", "--retention-bytes", "1G")

    changed = document(run("topic", "configure", "orders", "--retention-age", "none", "--partitions", "2", "--json"))

    assert changed["settings"]["retention_age_s"] is None
    assert changed["settings"]["retention_bytes"] == 1 << 30
    assert len(changed["partitions"]) == 2


@both
def test_configure_refuses_bad_values_and_changes_nothing(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    before = document(run("topic", "describe", "orders", "--json"))

    assert failed(
        run("topic", "configure", "orders", "--deliver-at", "some"),
        2,
        "deliver_at: expected one of none, plain, all, not 'some'",
    )
    assert failed(run("topic", "configure", "orders"), 2, "nothing to change")
    assert failed(run("topic", "configure", "orders", "--partitions", "1"), 2, "but not removed")
    assert failed(run("topic", "configure", "orders", "--durability", "never"), 2, "durability")
    assert failed(run("topic", "configure", "nope", "--partitions", "2"), 1, "`warren topic list`")

    assert document(run("topic", "describe", "orders", "--json")) == before


@both
def test_a_topic_is_deleted_only_after_confirmation(run: Run, place: Path) -> None:
    run("put", "orders", "a", "b")

    assert failed(run("topic", "delete", "orders", stdin=b"y\n"), 2, "--yes")
    assert run("topic", "delete", "orders", "--yes").stdout == "deleted orders with 2 messages\n"

    assert failed(run("topic", "delete", "orders", "--yes"), 1, "no topic 'orders'")
    assert list((place / "topics").iterdir()) == []


@pytest.mark.parametrize(("answer", "is_there"), [("n", True), ("y", False)])
def test_a_terminal_is_asked_to_confirm_before_a_topic_is_deleted(
    run: Run, place: Path, answer: str, is_there: bool
) -> None:
    run("put", "orders", "a", "b")
    keyboard, terminal = os.openpty()

    with start(place, "topic", "delete", "orders", stdin=terminal) as deleting:
        os.write(keyboard, f"{answer}\n".encode())
        _, question = deleting.communicate(timeout=60)

    os.close(keyboard)
    os.close(terminal)
    assert b"Delete orders with its 2 messages?" in question
    assert deleting.returncode == (1 if is_there else 0)
    assert (run("topic", "describe", "orders").exit_code == 0) == is_there


# --- Putting ---


@both
def test_arguments_are_messages_and_the_receipts_are_printed(run: Run) -> None:
    first = run("put", "orders", "10 carrots")
    second = run("put", "orders", "3 turnips", "1 leek")

    assert first.stdout == "partition 0, number 0\n"
    assert "created the topic orders" in first.stderr
    assert (second.stdout, second.stderr) == ("partition 0, numbers 1 to 2\n", "")
    assert bodies(run("read", "orders", "--json")) == ["10 carrots", "3 turnips", "1 leek"]


@both
def test_receipts_as_json_name_the_place_of_each_message(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")

    receipts = objects(run("put", "orders", "a", "b", "--partition", "1", "--json"))

    assert receipts == [
        {"topic": "orders", "partition": 1, "number": 0},
        {"topic": "orders", "partition": 1, "number": 1},
    ]


def test_quiet_prints_nothing(run: Run) -> None:
    assert run("put", "orders", "a", "--quiet").output == ""


@both
def test_key_tag_and_headers_are_those_of_every_message(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "4")

    run("put", "orders", "a", "b", "--key", "customer-7", "--tag", "eu.de", "-H", "trace=1", "-H", "note=x=y")

    messages = objects(run("read", "orders", "--json"))
    assert len({each["partition"] for each in messages}) == 1
    assert [(each["body"], each["key"], each["tag"], each["headers"]) for each in messages] == [
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
        (["-"], b"one\ntwo\n", ["one", "two"]),
        (["-", "-0"], b"one\0", ["one"]),
    ],
)
def test_stdin_is_one_message_per_line_by_default(
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


@both
def test_many_lines_share_their_receipts_by_partition(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2", "--durability", "os")
    count = 400_000

    result = run("put", "orders", stdin=b"".join(b"order %d\n" % number for number in range(count)))

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["partition 0", "partition 1"]
    assert sum(int(line.split()[-1]) + 1 for line in lines) == count


@pytest.mark.parametrize(("moment_s", "is_shown"), [(-1.0, True), (3600.0, False)])
def test_a_put_that_takes_long_shows_a_bar_at_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, moment_s: float, is_shown: bool
) -> None:
    monkeypatch.setattr("warren.cli.running.bar.MOMENT_S", moment_s)
    run("topic", "create", "orders")
    monkeypatch.setenv("FORCE_COLOR", "1")

    result = run("put", "orders", stdin=b"a\nb\n")

    assert result.stdout == "partition 0, numbers 0 to 1\n"
    assert ("putting" in result.stderr) == is_shown
    # The bar disappears, and the cursor that it hid comes back.
    assert result.stderr.count("\x1b[?25l") == result.stderr.count("\x1b[?25h")


def test_without_a_terminal_there_is_no_progress_bar(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.cli.running.bar.MOMENT_S", -1.0)
    run("topic", "create", "orders")

    assert run("put", "orders", stdin=b"a\nb\n").stderr == ""


def test_receipts_of_numbers_that_others_came_between_are_lines_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    receipts = Receipts("orders", is_json=False, is_quiet=False)

    for numbers in (range(3), range(3, 5), range(9, 12)):
        receipts.add([warren.Place(0, number) for number in numbers])
    receipts.finish()

    assert capsys.readouterr().out == "partition 0, numbers 0 to 4\npartition 0, numbers 9 to 11\n"


def test_a_line_over_the_limit_is_refused_before_all_of_it_is_read() -> None:
    pieces = lines(BytesIO(b"short\n" + b"." * 11), b"\n", size_max=10)

    assert next(pieces) == [b"short"]
    with pytest.raises(TooLarge):
        next(pieces)


@both
def test_a_body_over_the_limit_ends_the_put_and_keeps_earlier_messages(run: Run) -> None:
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
    with warren.open(place, keeps=False) as store:
        topic = store.topic("orders", partitions=3, durability="os")
        for number in range(9):
            topic.put(b"%d" % number, partition=number % 3, tag=f"eu.{'de' if number < 5 else 'fr'}")
            store.clock.sleep(0.001)
    return run


def numbers(result: Result) -> list[int]:
    return [int(body) for body in bodies(result)]


def test_partitions_are_merged_by_time(orders: Run) -> None:
    assert numbers(orders("read", "orders", "--json")) == list(range(9))


def test_a_message_is_one_line_with_any_content(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        store.topic("odd").put(b"b\n", key=b"k\t", tag="a\nb\x1b[31m", headers={"n\n": b"v\r"})

    (line,) = run("read", "odd").stdout.splitlines()

    assert line.split("\t")[2:] == [r"a\nb\x1b[31m", r"k\t", r"n\n=v\r", r"b\n"]


@both
def test_a_line_has_place_time_tag_key_headers_and_body(orders: Run) -> None:
    fields = orders("read", "orders", "--last", "1").stdout.rstrip("\n").split("\t")

    assert (fields[0], fields[2:]) == ("2:2", ["eu.fr", "", "", "8"])


@both
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
def test_the_requested_messages_are_read(orders: Run, options: list[str], expected: list[int]) -> None:
    assert numbers(orders("read", "orders", "--json", *options)) == expected


@both
def test_since_and_until_are_the_times_that_the_lines_show(orders: Run) -> None:
    times = [line.split("\t")[1] for line in orders("read", "orders").stdout.splitlines()]

    assert numbers(orders("read", "orders", "--json", "--since", times[2], "--until", times[6])) == [2, 3, 4, 5]
    assert numbers(orders("read", "orders", "--json", "--since", times[2], "--last", "9", "--until", times[4])) == [
        2,
        3,
    ]


def test_raw_output_is_the_bodies_that_were_put(orders: Run) -> None:
    assert orders("read", "orders", "--body", "--limit", "2").stdout == "0\n1\n"


def test_reading_takes_nothing_away(orders: Run) -> None:
    assert orders("read", "orders").stdout == orders("read", "orders").stdout


@both
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["orders", "--from", "0"], 2, "name one with --partition"),
        (["orders", "--partition", "3"], 2, "partitions 0 to 2"),
        (["orders", "--tag", "a..b"], 2, "tag filter"),
        (["orders", "--since", "yesterday"], 2, "expected a time"),
        (["orders", "--follow", "--until", "1h"], 2, "omit --until"),
        (["nope"], 1, "no topic 'nope'"),
    ],
)
def test_an_unreadable_topic_is_one_line(orders: Run, arguments: list[str], code: int, words: str) -> None:
    assert failed(orders("read", *arguments), code, words)


@both
def test_a_retired_number_reports_the_start_of_the_partition(run: Run, place: Path) -> None:
    run("topic", "create", "orders", "--block-size", "4k", "--durability", "os")
    with warren.open(place, keeps=False) as store:
        topic = store.topic("orders")
        for _ in range(20):
            topic.put(b"." * 1000)
        first = topic.partition(0).retire(before=10)

    assert failed(run("read", "orders", "--from", "0"), 1, f"start from {first}")
    assert [each["number"] for each in objects(run("read", "orders", "--json"))] == list(range(first, 20))


def test_following_shows_puts_of_other_processes_until_interrupted(orders: Run, place: Path) -> None:
    with start(place, "read", "orders", "--follow", "--last", "1", "--tag", "eu.fr", "--body") as following:
        assert pipe(following.stdout).readline() == b"8\n"

        orders("put", "orders", "passed over", "--tag", "eu.de")
        for partition in ("2", "0"):
            orders("put", "orders", f"new in {partition}", "--tag", "eu.fr", "--partition", partition)
            assert pipe(following.stdout).readline() == f"new in {partition}\n".encode()
        following.send_signal(signal.SIGINT)

        assert following.wait(60) == 0
        assert pipe(following.stderr).read() == b""


@pytest.mark.parametrize(("start", "number"), [(None, 3), (1, 3), (5, 5)])
def test_following_starts_at_the_end_or_at_the_requested_number(
    orders: Run, place: Path, start: int | None, number: int
) -> None:
    with warren.open(place, keeps=False) as store:
        (behind,) = places_behind(spans_of(store.topic("orders"), 0, start, None, None))

    assert behind.number == number


def test_several_partitions_are_followed_in_the_order_of_time(orders: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        topic = store.topic("orders")

        messages = next(following(topic, [FollowPosition(log, 0) for log in topic.logs], None, sees_all=True))

    assert [message.body for message in messages] == [b"%d" % number for number in range(9)]


def test_following_skips_retired_messages(place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        topic = store.topic("orders", block_size=4096, durability="os")
        for _ in range(20):
            topic.put(b"." * 1_000)
        first = topic.partition(0).retire(before=10)

        messages = next(following(topic, [FollowPosition(topic.partition(0), 0)], None, sees_all=True))

    assert 0 < first < 10
    assert [message.number for message in messages] == list(range(first, 20))


def test_following_sees_partitions_that_are_added(orders: Run, place: Path) -> None:
    with start(place, "read", "orders", "--follow", "--last", "1", "--body") as following:
        assert pipe(following.stdout).readline() == b"8\n"

        orders("topic", "configure", "orders", "--partitions", "4")
        orders("put", "orders", "in the fourth", "--partition", "3")

        assert pipe(following.stdout).readline() == b"in the fourth\n"
        following.send_signal(signal.SIGINT)


def test_following_ends_at_its_limit(orders: Run, place: Path) -> None:
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


# --- Delayed messages ---


@both
def test_a_delayed_message_is_parked_and_its_due_time_printed(run: Run) -> None:
    result = run("put", "jobs", "later", "--delay", "1h", "--key", "k", "--tag", "mail")
    (receipt,) = objects(run("put", "jobs", "then", "--at", "2099-01-01T00:00", "--json"))

    assert result.stdout.startswith("due 20")
    assert receipt == {
        "topic": "jobs",
        "id": receipt["id"],
        "due": int(datetime(2099, 1, 1, tzinfo=UTC).timestamp()) * 10**6,
    }
    assert bodies(run("read", "jobs", "--json")) == []
    first, second = objects(run("scheduled", "list", "jobs", "--json"))
    assert (first["body"], first["key"], first["tag"], first["topic"]) == ("later", "k", "mail", "jobs")
    assert (second["body"], second["id"], second["due"]) == ("then", receipt["id"], receipt["due"])


def test_messages_that_became_due_while_the_store_was_closed_are_read(run: Run) -> None:
    run("put", "jobs", "past", "--at", "2020-01-01")
    run("put", "jobs", *map(str, range(3)), "--delay", "0s")

    assert sorted(bodies(run("read", "jobs", "--json"))) == ["0", "1", "2", "past"]
    assert run("scheduled", "list").stdout == "nothing scheduled\n"


def test_all_due_messages_are_delivered_before_a_read(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        store.topic("jobs", durability="os").put_many([b"."] * 2_500, delay=0.0)

    assert len(run("read", "jobs").stdout.splitlines()) == 2_500


@both
def test_the_list_is_ordered_by_time_over_all_topics_and_mentions_if_there_is_more(run: Run) -> None:
    for topic, delay in (("b", "3h"), ("a", "2h"), ("b", "1h")):
        run("put", topic, f"{topic} {delay}", "--delay", delay, "-q")

    result = run("scheduled", "list", "--limit", "2")

    assert [line.split()[0] for line in result.stdout.splitlines()[3:]] == ["b", "a", "and"]
    assert bodies(run("scheduled", "list", "--json")) == ["b 1h", "a 2h", "b 3h"]


def test_the_id_is_whole_in_a_narrow_terminal(run: Run) -> None:
    (receipt,) = objects(run("put", "jobs", "word " * 50, "--delay", "20d", "--tag", "tag" * 20, "--json"))

    result = run("scheduled", "list", columns=80)

    assert receipt["id"] in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@both
def test_cancelling_answers_whether_it_was_in_time(run: Run) -> None:
    ids = [each["id"] for each in objects(run("put", "jobs", "a", "b", "c", "--delay", "1h", "--json"))]

    in_time = run("scheduled", "cancel", "jobs", *ids[:2])
    too_late = run("scheduled", "cancel", "jobs", *ids[1:])

    assert (in_time.exit_code, in_time.stdout) == (0, f"cancelled {ids[0]}\ncancelled {ids[1]}\n")
    assert too_late.exit_code == 1
    assert too_late.stdout.splitlines()[0].startswith(f"too late for {ids[1]}")
    assert too_late.stdout.splitlines()[1] == f"cancelled {ids[2]}"
    again = run("scheduled", "cancel", "jobs", ids[0], "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (1, [{"topic": "jobs", "id": ids[0], "cancelled": False}])
    assert objects(run("scheduled", "list", "jobs", "--json")) == []


@both
def test_a_malformed_id_cancels_nothing(run: Run) -> None:
    (receipt,) = objects(run("put", "jobs", "a", "--delay", "1h", "--json"))

    assert failed(run("scheduled", "cancel", "jobs", receipt["id"], "nonsense"), 2, "'nonsense'")
    assert len(objects(run("scheduled", "list", "jobs", "--json"))) == 1


# --- Taking ---


@both
def test_a_taken_message_is_not_taken_again(run: Run) -> None:
    run("put", "jobs", "a", "b", "c")

    assert run("take", "jobs", "workers", "--body").stdout == "a\n"
    assert bodies(run("take", "jobs", "workers", "--limit", "5", "--json")) == ["b", "c"]
    assert run("take", "jobs", "others", "-n", "5", "--body").stdout == "a\nb\nc\n"


@both
def test_an_empty_queue_is_distinct_from_an_empty_message(run: Run) -> None:
    run("put", "jobs", "")

    empty = run("take", "jobs", "workers", "--body")
    nothing = run("take", "jobs", "workers", "--body")

    assert (empty.exit_code, empty.stdout) == (0, "\n")
    assert (nothing.exit_code, nothing.stdout) == (3, "")


@both
def test_an_unacknowledged_message_comes_again_and_finally_becomes_a_dead_letter(run: Run) -> None:
    run("put", "jobs", "good")
    run("take", "jobs", "workers")
    run("group", "configure", "jobs", "workers", "--backoff", "0s")
    run("put", "jobs", "bad", "--tag", "x", "-H", "trace=7")

    attempts = [objects(run("take", "jobs", "workers", "--no-ack", "--json"))[0]["attempt"] for _ in range(5)]

    assert attempts == [1, 2, 3, 4, 5]
    assert run("take", "jobs", "workers").exit_code == 3
    (letter,) = objects(run("dead", "list", "--json"))
    assert (letter["body"], letter["reason"]) == ("bad", "it was given back")


@both
def test_more_than_a_page_is_taken_with_one_call(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        store.topic("jobs", durability="os").put_many([b"%d" % number for number in range(2_500)])

    assert run("take", "jobs", "workers", "-n", "2200", "--body").stdout.split() == list(map(str, range(2_200)))
    assert len(run("take", "jobs", "workers", "-n", "9999", "--body").stdout.split()) == 300


@both
def test_a_filter_is_that_of_the_group(run: Run) -> None:
    run("put", "jobs", "german", "--tag", "eu.de")
    run("put", "jobs", "french", "--tag", "eu.fr")

    assert run("take", "jobs", "workers", "-n", "9", "--tag", "*.fr", "--body").stdout == "french\n"
    assert document(run("group", "list", "jobs", "--json"))[0]["tag"] == "*.fr"


def test_a_message_that_could_not_be_printed_is_handed_out_again(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        store.topic("jobs", durability="os").put_many([b"." * 1_000] * 500)

    with start(place, "take", "jobs", "workers", "-n", "500") as taking:
        pipe(taking.stdout).close()
        complaint = pipe(taking.stderr).read()
        taking.wait(60)

    assert b"Traceback" not in complaint
    messages = objects(run("take", "jobs", "workers", "-n", "999", "--wait", "30s", "--json"))
    assert [each["attempt"] for each in messages] == [2] * 500


def test_waiting_ends_with_the_first_message(run: Run, place: Path) -> None:
    run("topic", "create", "jobs")
    with start(place, "take", "jobs", "workers", "--wait", "1h", "--limit", "5", "--body") as taking:
        # The group exists before it waits.
        while not document(run("group", "list", "jobs", "--json")):
            assert taking.poll() is None

        run("put", "jobs", "here", "--delay", "0s")

        assert pipe(taking.stdout).read() == b"here\n"
        assert taking.wait(60) == 0


def test_waiting_is_interrupted_with_130(run: Run, place: Path) -> None:
    run("topic", "create", "jobs")
    with start(place, "take", "jobs", "workers", "--wait", "1h") as taking:
        while not document(run("group", "list", "jobs", "--json")):
            assert taking.poll() is None

        taking.send_signal(signal.SIGINT)

        assert taking.wait(60) == 130
        assert b"Traceback" not in pipe(taking.stderr).read()


@both
def test_a_stream_group_is_read_and_committed(run: Run, place: Path) -> None:
    run("put", "jobs", "a", "b", "c")
    with warren.open(place, keeps=False) as store:
        store.topic("jobs").group("billing").close()

    assert run("take", "jobs", "billing", "--no-ack", "--body").stdout == "a\n"
    assert run("take", "jobs", "billing", "-n", "2", "--body").stdout == "a\nb\n"
    assert run("take", "jobs", "billing", "-n", "2", "--body").stdout == "c\n"
    assert run("take", "jobs", "billing").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope", "workers"], 1, "no topic 'nope'"),
        (["jobs", "../workers"], 2, "group name"),
        (["jobs", "workers", "--wait", "long"], 2, "expected a duration"),
        (["jobs", "workers", "--wait", "5w"], 2, "at most"),
        (["jobs", "workers", "--tag", "a..b"], 2, "tag filter"),
    ],
)
def test_a_refused_take_creates_no_group(run: Run, arguments: list[str], code: int, words: str) -> None:
    run("topic", "create", "jobs")

    assert failed(run("take", *arguments), code, words)
    assert document(run("group", "list", "--json")) == []


# --- Groups ---


@pytest.fixture
def consumed(run: Run, place: Path) -> Run:
    """Ten messages in two partitions; a stream group with a filter has done with three, a queue group with one."""
    with warren.open(place, keeps=False) as store:
        topic = store.topic("jobs", partitions=2, durability="os")
        for number in range(10):
            topic.put(b"%d" % number, partition=number % 2, tag="eu.de")
        billing = topic.group("billing", tag="eu.*")
        billing.commit({0: 3})
        workers = topic.group("workers", mode="queue")
        workers.ack(workers.take(1)[0])
    return run


@both
def test_the_list_shows_stream_and_queue_groups(consumed: Run) -> None:
    billing, workers = document(consumed("group", "list", "--json"))

    assert billing == {
        "topic": "jobs",
        "group": "billing",
        "mode": "stream",
        "tag": "eu.*",
        "members": 0,
        "leased": None,
        "behind": 7,
    }
    assert (workers["group"], workers["mode"], workers["leased"], workers["behind"]) == ("workers", "queue", 0, 9)
    rows = [line.split() for line in consumed("group", "list").stdout.splitlines()[3:]]
    assert [(row[1], row[2], row[-1]) for row in rows] == [("billing", "stream", "7"), ("workers", "queue", "9")]


@both
def test_the_lag_is_that_of_each_partition(consumed: Run) -> None:
    rows = document(consumed("group", "lag", "--json"))

    assert [(row["group"], row["partition"], row["next"], row["end"], row["behind"]) for row in rows] == [
        ("billing", 0, 3, 5, 2),
        ("billing", 1, 0, 5, 5),
        ("workers", 0, None, 5, 4),
        ("workers", 1, None, 5, 5),
    ]
    assert document(consumed("group", "lag", "jobs", "billing", "--json")) == rows[:2]
    assert failed(consumed("group", "lag", "jobs", "../../jobs/groups/billing"), 2, "group name")
    assert len(consumed("group", "lag").stdout.splitlines()) == 3 + len(rows)


@both
def test_looking_at_groups_joins_none(consumed: Run, place: Path) -> None:
    with warren.open(place) as store:
        member = store.topic("jobs").group("billing")
        before = member.partitions

        (billing, _) = document(consumed("group", "list", "jobs", "--json"))
        consumed("group", "lag")

        assert billing["members"] == 1
        assert member.partitions == before == [0, 1]


@both
def test_settings_of_a_group_are_changed_only_by_configure(consumed: Run) -> None:
    consumed("take", "jobs", "choosy", "--tag", "eu.*")

    changed = document(
        consumed("group", "configure", "jobs", "choosy", "--lease=5m", "--attempts-max=2", "--backoff=10s", "--json")
    )
    output = consumed("group", "configure", "jobs", "choosy", "--tag", "", "--ordered-by-key", "yes").stdout

    assert (changed["tag"], changed["lease_s"], changed["attempts_max"], changed["backoff_s"]) == ("eu.*", 300, 2, 10)
    assert "tag  none\n" in output
    assert "ordered_by_key  True\n" in output
    assert failed(consumed("take", "jobs", "choosy", "--tag", "us.*"), 2, "tag=None, not 'us.*'")
    assert failed(consumed("group", "configure", "jobs", "choosy"), 2, "nothing to change")
    assert failed(consumed("group", "configure", "jobs", "missing", "--lease", "1m"), 1, "no group 'missing'")


@both
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to", "start"], {0: 0, 1: 0}),
        (["--to", "end"], {0: 5, 1: 5}),
        (["--to", "end", "--partition", "1"], {1: 5}),
        (["--to", "4", "--partition", "0"], {0: 4}),
        (["--to", "99", "--partition", "0"], {0: 5}),
        (["--to", "1h"], {0: 0, 1: 0}),
        (["--to", "2099-01-01"], {0: 5, 1: 5}),
    ],
)
def test_a_stream_group_is_moved(consumed: Run, options: list[str], expected: dict[int, int]) -> None:
    moved = document(consumed("group", "seek", "jobs", "billing", *options, "--json"))

    assert {each["partition"]: each["next"] for each in moved} == expected
    lag = document(consumed("group", "lag", "jobs", "billing", "--json"))
    assert {each["partition"]: each["next"] for each in lag} == {0: 3, 1: 0} | expected


@both
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["billing", "--to", "3"], 2, "name one with --partition"),
        (["billing", "--to", "start", "--partition", "2"], 2, "no partition 2"),
        (["billing", "--to", "-1"], 2, "expected a time"),
        (["billing", "--to", "tomorrow"], 2, "expected a time"),
        (["workers", "--to", "start"], 2, "queue group"),
        (["missing", "--to", "start"], 1, "`warren group list jobs`"),
        (["../../jobs/groups/billing", "--to", "start"], 2, "group name"),
    ],
)
def test_a_refused_move_changes_nothing(consumed: Run, arguments: list[str], code: int, words: str) -> None:
    before = document(consumed("group", "lag", "--json"))

    assert failed(consumed("group", "seek", "jobs", *arguments), code, words)
    assert document(consumed("group", "lag", "--json")) == before


@both
def test_a_group_with_active_members_is_not_moved(consumed: Run, place: Path) -> None:
    with warren.open(place) as store, store.topic("jobs").group("billing"):
        assert failed(
            consumed("group", "seek", "jobs", "billing", "--to", "start"), 1, "1 member: stop all members first"
        )

    assert consumed("group", "seek", "jobs", "billing", "--to", "start").exit_code == 0


def test_a_group_with_a_member_that_joins_at_the_last_moment_is_not_moved(
    consumed: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "warren.queue.topic.describe_group",
        lambda topic, group: dataclasses.replace(describe_group(topic, group), members=[]),
    )
    with warren.open(place) as store, store.topic("jobs").group("billing"):
        assert failed(consumed("group", "seek", "jobs", "billing", "--to", "end"), 1, "does not own")

    assert [each["next"] for each in document(consumed("group", "lag", "jobs", "billing", "--json"))] == [3, 0]


@both
def test_a_partition_that_was_added_is_behind_and_does_not_change(consumed: Run, place: Path) -> None:
    consumed("topic", "configure", "jobs", "--partitions", "3")
    consumed("put", "jobs", "new", "--partition", "2")

    (*_, added) = document(consumed("group", "lag", "jobs", "billing", "--json"))

    assert (added["partition"], added["next"], added["behind"]) == (2, 0, 1)
    assert not (place / "topics" / "jobs" / "2" / "readers").exists()


def test_a_group_is_not_moved_to_a_retired_number(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        topic = store.topic("jobs", block_size=4096, durability="os")
        topic.put_many([b"." * 1_000] * 3)
        for _ in range(20):
            topic.put(b"." * 1_000)
        topic.group("billing").close()
        first = topic.partition(0).retire(before=10)

    assert failed(run("group", "seek", "jobs", "billing", "--to", "1"), 1, f"start from {first}")


@pytest.mark.parametrize("command", ["list", "lag"])
def test_listing_a_store_without_groups_prints_that(run: Run, command: str) -> None:
    run("topic", "create", "jobs")

    assert run("group", command).stdout == "no groups\n"
    assert failed(run("group", command, "nope"), 1, "no topic 'nope'")


# --- Dead letters ---


@pytest.fixture
def deadly(run: Run, place: Path) -> Run:
    """Three messages that failed in a group, and one that failed in another group of the topic."""
    with warren.open(place, keeps=False) as store:
        topic = store.topic("jobs", partitions=2, durability="os")
        for number in range(3):
            topic.put(b"%d" % number, partition=1, tag="eu.de", headers={"trace": b"7"})
        for name, count in (("workers", 3), ("others", 1)):
            group = topic.group(name, mode="queue", attempts_max=1)
            for message in group.take(count):
                group.nack(message, reason=f"{name} cannot")
    return run


@both
def test_dead_letters_show_their_origin_and_reason(deadly: Run) -> None:
    letters = objects(deadly("dead", "list", "jobs", "--json"))

    assert [(each["group"], each["body"]) for each in letters] == [
        ("workers", "0"),
        ("workers", "1"),
        ("workers", "2"),
        ("others", "0"),
    ]
    last = letters[2]
    assert (last["topic"], last["partition"], last["number"], last["attempts"]) == ("jobs", 1, 2, 1)
    assert (last["reason"], last["headers"], last["tag"]) == ("workers cannot", {"trace": "7"}, "eu.de")
    assert (last["dead"]["topic"], last["dead"]["number"]) == ("jobs.dead", 2)


def test_the_table_of_dead_letters_fits_and_mentions_if_there_is_more(deadly: Run) -> None:
    result = deadly("dead", "list", "--limit", "3")

    assert [line.split()[:3] for line in result.stdout.splitlines()[3:6]] == [
        ["jobs", f"1:{number}", "workers"] for number in range(3)
    ]
    assert "and more" in result.stdout.splitlines()[6]
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "and more" not in deadly("dead", "list", "--limit", "4").stdout


@both
def test_dead_letters_are_put_back_once_and_are_no_longer_listed(deadly: Run) -> None:
    first = deadly("dead", "redrive", "jobs", "workers", "--limit", "1")
    redriven = document(deadly("dead", "redrive", "jobs", "--json"))

    assert first.stdout == "workers: 1 message put back into jobs\n"
    assert redriven == [
        {"topic": "jobs", "group": "others", "messages": 1},
        {"topic": "jobs", "group": "workers", "messages": 2},
    ]
    assert deadly("dead", "list").stdout == "no dead letters\n"
    assert deadly("take", "jobs", "workers", "-n", "9", "--body").stdout.split() == ["0", "0", "1", "2"]


@both
def test_letters_of_one_group_are_listed_and_put_back_alone(deadly: Run) -> None:
    deadly("dead", "redrive", "jobs", "workers")

    assert [each["group"] for each in objects(deadly("dead", "list", "jobs", "--json"))] == ["others"]
    assert objects(deadly("dead", "list", "jobs", "workers", "--json")) == []


def test_a_foreign_message_in_the_dead_letter_topic_is_not_a_letter(deadly: Run) -> None:
    deadly("put", "jobs.dead", "hello", "-H", "warren.dead-topic=jobs")

    assert len(objects(deadly("dead", "list", "jobs", "--json"))) == 4


def test_topics_may_share_the_place_of_their_dead(run: Run, place: Path) -> None:
    with warren.open(place, keeps=False) as store:
        for name in ("jobs", "mails"):
            topic = store.topic(name, dead_letter="graveyard", durability="os")
            topic.put(name.encode())
            group = topic.group("workers", mode="queue", attempts_max=1)
            group.nack(group.take(1)[0])

    assert bodies(run("dead", "list", "jobs", "--json")) == ["jobs"]
    assert bodies(run("dead", "list", "--json")) == ["jobs", "mails"]


def test_letters_are_listed_after_their_topic_was_recreated(deadly: Run, place: Path) -> None:
    deadly("dead", "redrive", "jobs")
    deadly("topic", "delete", "jobs.dead", "--yes")
    with warren.open(place, keeps=False) as store:
        group = store.topic("jobs").group("workers", mode="queue")
        group.nack(group.take(1)[0])

    assert bodies(deadly("dead", "list", "jobs", "--json")) == ["0"]
    assert deadly("dead", "redrive", "jobs", "workers").stdout.startswith("workers: 1 message ")


@both
def test_asking_for_the_dead_makes_no_topic_for_them(run: Run) -> None:
    run("put", "jobs", "a")
    run("take", "jobs", "workers")

    assert run("dead", "list").stdout == "no dead letters\n"
    assert run("dead", "redrive", "jobs").stdout == "workers: 0 messages put back into jobs\n"
    assert [each["topic"] for each in document(run("topic", "list", "--json"))] == ["jobs"]


@both
def test_only_queue_groups_have_dead_letters(consumed: Run) -> None:
    assert failed(consumed("dead", "redrive", "jobs", "billing"), 2, "stream group")
    assert failed(consumed("dead", "redrive", "jobs", "missing"), 1, "no group 'missing'")
    assert failed(consumed("dead", "list", "nope"), 1, "no topic 'nope'")


# --- The store ---


FINDING = [
    ["topic", "list"],
    ["topic", "describe", "orders"],
    ["topic", "configure", "orders", "--partitions", "2"],
    ["topic", "delete", "orders", "--yes"],
    ["read", "orders"],
    ["take", "orders", "workers"],
    ["group", "list"],
    ["group", "lag"],
    ["group", "seek", "orders", "billing", "--to", "start"],
    ["dead", "list"],
    ["dead", "redrive", "orders"],
    ["scheduled", "list"],
    ["scheduled", "cancel", "orders", "minute-0-0"],
]


@pytest.mark.parametrize("arguments", FINDING, ids=" ".join)
@pytest.mark.parametrize(
    ("kind", "reason"), [("missing", "no such directory"), ("file", "it is a file"), ("strangers", "another directory")]
)
def test_only_put_and_create_make_a_store(run: Run, place: Path, arguments: list[str], kind: str, reason: str) -> None:
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


def test_the_default_store_is_data_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARREN_STORE", raising=False)

    CliRunner().invoke(app, ["put", "orders", "a"])

    assert (tmp_path / "data" / "store.json").exists()


# --- The document ---


def same_at_any_time(text: str) -> list[str]:
    """Returns the lines of `text`, with the same time and id in all, and without padding at the right of tables."""
    text = re.sub(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d", r"YYYY-MM-DD\1HH:MM:SS", text)
    text = re.sub(r"\.\d{6}Z", ".000000Z", text)
    text = re.sub(r"-\d{16}\b", "-0000000000000000", text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_session_in_the_document_is_reproduced(tmp_path: Path) -> None:
    (session,) = fenced((ROOT / "docs" / "cli.md").read_text(), "console")
    program = f"warren() {{ {sys.executable} -c 'from warren.cli.main import main; main()' \"$@\"; }}"
    environment = {name: value for name, value in os.environ.items() if name != "WARREN_STORE"}

    for step in session.removeprefix("$ ").split("\n$ "):
        command, _, output = step.partition("\n")
        completed = subprocess.run(
            ["bash", "-c", f"{program}; {command}"],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(SOURCE), "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

        assert completed.returncode == 0, command
        assert same_at_any_time(completed.stdout) == same_at_any_time(output), command


# --- Completion ---


def completions(place: Path, *words: str) -> list[str]:
    """Returns the completions that the shell gets for the last of `words`."""
    environment = {
        "WARREN_STORE": str(place),
        "_WARREN_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("warren", *words)),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="warren")
    assert result.stderr == ""
    return result.stdout.split()


def test_the_shell_completes_commands_topics_and_groups(consumed: Run, place: Path) -> None:
    consumed("topic", "create", "journal")

    assert completions(place, "sch") == ["scheduled"]
    assert completions(place, "group", "") == ["list", "lag", "configure", "seek"]
    assert completions(place, "read", "") == ["jobs", "journal"]
    assert completions(place, "topic", "describe", "jou") == ["journal"]
    assert completions(place, "take", "jobs", "") == ["billing", "workers"]
    assert completions(place, "take", "journal", "") == []
    assert completions(place, "take", "nope", "") == []
    assert completions(place, "topic", "create", "j") == []


def test_the_shell_completes_from_the_store_that_is_named(consumed: Run, place: Path, tmp_path: Path) -> None:
    assert completions(tmp_path / "elsewhere", "read", "") == []
    assert completions(tmp_path / "elsewhere", "read", "--store", str(place), "") == ["jobs"]
    assert not (tmp_path / "elsewhere").exists()
