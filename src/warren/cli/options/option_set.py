"""A set of options that several commands share, and that each of them takes as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSet:
    """The options by name, each with its annotation and its default, and the function that makes one value of them.

    The command-line framework reads the signature of a command to learn its options. So the decorator gives the command
    a signature with these options in place of the one parameter; with `is_last` they come after all others.
    """

    options: Mapping[str, tuple[Any, Any]]
    value_of: Callable[..., Any]
    is_last: bool = False

    def as_parameter(self, name: str) -> Callable[[Command], Command]:
        """Returns a decorator that puts these options in place of the parameter `name` of a command."""

        def decorate(command: Command) -> Command:
            signature = inspect.signature(command, eval_str=True)
            parameters = self._expanded(signature, name)

            @functools.wraps(command)
            def expanded(**values: Any) -> None:
                own = {option: values.pop(option) for option in self.options}
                command(**{name: self.value_of(**own)}, **values)

            expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
            expanded.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
            return expanded

        return decorate

    def _expanded(self, signature: inspect.Signature, name: str) -> list[inspect.Parameter]:
        kind = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(option, kind, default=default, annotation=annotation)
            for option, (annotation, default) in self.options.items()
        ]
        others = [each.replace(kind=kind) for each in signature.parameters.values()]
        place = [each.name for each in others].index(name)
        before, behind = others[:place], others[place + 1 :]
        return [*before, *behind, *options] if self.is_last else [*before, *options, *behind]
