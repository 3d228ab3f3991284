"""Patterns of topic names, as members of consumer groups send them: matched in time that grows with the name alone."""

from __future__ import annotations

from collections.abc import Iterable

import re2  # type: ignore[import-untyped]

from warren.errors import BadInput


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that the whole of the pattern matches; BadInput where it is none."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise BadInput(f"pattern {pattern!r}: {error}") from error
    return frozenset(name for name in names if compiled.fullmatch(name))
