"""Records what a function returns, each time the code under test calls it."""

from __future__ import annotations

from typing import Any

import pytest


def recorded(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    """Returns the results of the calls of `owner.name` from now on, in order."""
    results: list[Any] = []
    function = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        results.append(function(*arguments, **named))
        return results[-1]

    monkeypatch.setattr(owner, name, call)
    return results
