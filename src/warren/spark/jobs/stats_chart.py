"""Draws statistics over time: messages, bytes, gaps between messages, and latencies."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from warren.clock import EPOCH
from warren.errors import BadInput

if TYPE_CHECKING:
    from warren.spark.jobs.stats import Stats, WindowStats

WIDTH_IN = 10.0
PANEL_HEIGHT_IN = 2.6
DPI = 120


def save_chart(stats: Stats, path: str) -> None:
    """Draws the windows over time into a PNG. Raises BadInput if there are no messages, or no Matplotlib."""
    if not stats.windows:
        raise BadInput("there are no messages to draw a chart of")
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise BadInput("a chart needs Matplotlib: `pip install matplotlib` installs it") from error
    # A picture in a file needs no display.
    matplotlib.use("Agg")
    from matplotlib import pyplot

    has_latency = any(window.latencies for window in stats.windows)
    panels = ["messages", "bytes", "gaps", *(["latencies"] if has_latency else [])]
    figure, axes = pyplot.subplots(
        len(panels), 1, sharex=True, figsize=(WIDTH_IN, PANEL_HEIGHT_IN * len(panels)), layout="constrained"
    )
    try:
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel, stats)
        axes[0].legend(loc="upper left", frameon=False)
        axes[-1].set_xlabel("time (UTC)")
        figure.autofmt_xdate()
        figure.savefig(path, dpi=DPI)
    finally:
        pyplot.close(figure)


def _draw(axis: Any, panel: str, stats: Stats) -> None:
    seconds = stats.window_us / 1e6
    for topic in stats.totals():
        windows = [window for window in stats.windows if window.topic == topic]
        times = [EPOCH + timedelta(microseconds=window.start_us) for window in windows]
        if panel == "messages":
            axis.plot(times, [window.messages / seconds for window in windows], marker=".", label=topic)
        elif panel == "bytes":
            axis.plot(times, [window.size / seconds for window in windows], marker=".", label=topic)
        else:
            _draw_quantiles(axis, panel, topic, times, windows)
    labels = {
        "messages": "messages / s",
        "bytes": "bytes / s",
        "gaps": "between messages (s)",
        "latencies": "latency (s)",
    }
    axis.set_ylabel(labels[panel])
    if panel in ("gaps", "latencies"):
        axis.set_yscale("symlog", linthresh=1e-6)
        axis.legend(loc="upper left", frameon=False, fontsize="small")
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, alpha=0.3)


def _draw_quantiles(axis: Any, panel: str, topic: str, times: list[Any], windows: list[WindowStats]) -> None:
    for name, style in (("p50", "-"), ("p99", ":")):
        values = [getattr(window, panel).get(name, float("nan")) for window in windows]
        axis.plot(times, values, style, marker=".", label=f"{topic} {name}")
