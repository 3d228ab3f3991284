"""Commands with bars, in a terminal: bars are drawn only there, so no other test sees them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tests.support.terminal import run_in_terminal
from warren.cli.output.rates import Stopwatch
from warren.cli.running.bar import progress_bars
from warren.clock import SYSTEM_CLOCK
from warren.storage import Log

BAR = "━"


def terminal_console() -> Console:
    return Console(force_terminal=True, width=80, record=True, highlight=False)


def test_a_bar_without_a_total_is_drawn_without_a_count() -> None:
    console = terminal_console()

    with progress_bars(console) as progress, Stopwatch(progress, SYSTEM_CLOCK).waiting("Spark starts"):
        progress.refresh()

    assert "Spark starts" in console.export_text()
    assert " of " not in console.export_text()


def test_a_bar_that_learns_its_total_shows_how_many_of_how_many() -> None:
    console = terminal_console()

    with progress_bars(console) as progress, Stopwatch(progress, SYSTEM_CLOCK).stage("orders read", 0) as stage:
        stage.reach(1_500, 4_000)
        progress.refresh()
        text = console.export_text()

    assert "1,500 of 4,000" in text


def test_log_verify_and_log_bench_draw_their_bars(tmp_path: Path) -> None:
    with Log.open(tmp_path / "orders", durability="os") as log:
        log.append_many([b"carrots"] * 5_000)

    verified = run_in_terminal("log", "verify", "orders", folder=tmp_path)
    measured = run_in_terminal("log", "bench", "--messages", "1000", "--directory", ".", folder=tmp_path)

    assert verified.exit_code == 0, verified.text
    assert "checking" in verified.text
    assert "5,000 messages" in verified.text
    assert BAR in verified.text
    assert measured.exit_code == 0, measured.text
    assert "append_many by 1,000" in measured.text
    assert BAR in measured.text


def test_a_long_put_draws_its_bar(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"carrots\n" * 400_000)
    slow = "import warren.cli.running.bar as bar; bar.MOMENT_S = 0.0\nfrom warren.cli.main import main; main()"

    screen = run_in_terminal("put", "orders", "--file", "lines", "--lines", "--quiet", folder=tmp_path, program=slow)

    assert screen.exit_code == 0, screen.text
    assert "putting" in screen.text
    assert BAR in screen.text
