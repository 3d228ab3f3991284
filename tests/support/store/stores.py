"""Stores for tests: on the machine's own file system without its syncs, and maintained by the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.fakes import QUICK_DISK
from warren.queue.store import Store


def quick_store(path: Path | str, **options: Any) -> Store:
    """A store whose syncs cost nothing and whose duties run when `keep()` is called."""
    settings: dict[str, Any] = {"filesystem": QUICK_DISK, "keeps": False}
    return Store(path, **settings | options)
