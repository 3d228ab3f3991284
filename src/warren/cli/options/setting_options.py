"""The options of a command that changes settings: flags, values and help come from the table of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from warren.cli.options.option_set import Command, OptionSet
from warren.cli.running.quantities import YES_OR_NO, parse_setting
from warren.settings import Count, Flag, Kind, OneOf, OrNone, Seconds, Setting, Size, Table

FLAGS: Final[Mapping[str, tuple[str, ...]]] = {"retention_age_s": ("--retention-age",), "tag": ("--tag", "-t")}
"""The flags of settings whose flag differs from the name. A flag has no unit, because its value has one."""
METAVARS: Final[Mapping[str, str]] = {"durability": "LEVEL", "dead_letter": "TOPIC", "tag": "FILTER"}
"""The placeholder for the value in the help, if the kind of the setting does not name one."""


def with_settings(table: Table) -> Callable[[Command], Command]:
    """Decorates a command: its parameter `settings` holds the settings that the user gave, each parsed."""

    def settings_of(**texts: str | None) -> dict[str, Any]:
        return {name: parse_setting(table[name], text) for name, text in texts.items() if text is not None}

    options = {name: (_option(each), None) for name, each in table.items()}
    return OptionSet(options=options, value_of=settings_of).as_parameter("settings")


def _option(setting: Setting) -> Any:
    flags = FLAGS.get(setting.name, (f"--{setting.name.replace('_', '-')}",))
    metavar = METAVARS.get(setting.name) or _metavar(setting.kind)
    return Annotated[str | None, typer.Option(*flags, metavar=metavar, help=_help(setting))]


def _metavar(kind: Kind[Any]) -> str:
    match kind:
        case OrNone():
            return f"{_metavar(kind.kind)}|{kind.word}"
        case Size():
            return "SIZE"
        case Count():
            return "COUNT"
        case Seconds():
            return "DURATION"
        case Flag():
            return f"{YES_OR_NO.yes}|{YES_OR_NO.no}"
        case OneOf():
            return "|".join(kind.words)
    return "TEXT"


def _help(setting: Setting) -> str:
    text = setting.description.replace("`", "")
    return f"{text[0].upper()}{text[1:]}."
