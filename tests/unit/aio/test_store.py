"""The options of an embedded asyncio store."""

from __future__ import annotations

from pathlib import Path

import pytest

import warren
from tests.support.patience import run
from warren.errors import BadInput


def test_open_refuses_invalid_settings(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(BadInput, match="durability"):
            await warren.aio.open(tmp_path, durability="never")

    run(work())
