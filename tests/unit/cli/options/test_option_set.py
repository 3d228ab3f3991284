"""Sets of options that several commands take as one parameter."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from warren.cli.options.option_set import OptionSet

OPTIONS = {"size": (int, 1), "unit": (str, "s")}


@pytest.mark.parametrize(
    ("is_last", "names"), [(False, ["topic", "size", "unit", "is_json"]), (True, ["topic", "is_json", "size", "unit"])]
)
def test_the_options_replace_the_parameter_or_come_after_all_others(is_last: bool, names: list[str]) -> None:
    calls: list[tuple[str, str, bool]] = []
    options = OptionSet(options=OPTIONS, value_of=lambda size, unit: f"{size}{unit}", is_last=is_last)

    @options.as_parameter("duration")
    def command(topic: str, duration: str, is_json: bool = False) -> None:
        calls.append((topic, duration, is_json))

    command(topic="orders", size=3, unit="h", is_json=True)

    signature = inspect.signature(command)
    assert list(signature.parameters) == names
    assert signature.parameters["size"].default == 1
    assert calls == [("orders", "3h", True)]


def test_two_sets_of_options_stand_in_one_command() -> None:
    calls: list[dict[str, Any]] = []
    first = OptionSet(options=OPTIONS, value_of=lambda size, unit: f"{size}{unit}")
    second = OptionSet(options={"store": (str, "data")}, value_of=lambda store: f"at {store}", is_last=True)

    @second.as_parameter("target")
    @first.as_parameter("duration")
    def command(target: str, duration: str) -> None:
        calls.append({"target": target, "duration": duration})

    command(size=1, unit="m", store="here")

    assert calls == [{"target": "at here", "duration": "1m"}]
