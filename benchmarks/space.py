"""Bytes on disk for a body of 100 bytes: blocks cut to their used part, and the index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, Row, at_most
from benchmarks.workspace import BODY_SIZE, Contest, Workspace


def on_disk(workspace: Workspace) -> list[Row]:
    count = workspace.scale.reads
    body = Figure(name="the body", value=BODY_SIZE, unit="B")
    kinds = (
        ("single", "single records", workspace.single_log(count), 1.65),
        ("batches", "batches of 1,000", workspace.columns_log(count), 1.06),
    )
    return [
        Row(
            name=f"space.disk.{kind}",
            what=f"bytes on disk for a 100-byte body, {title}",
            baseline=body,
            measured=Figure(
                name="on disk",
                value=used_bytes(path) / count,
                unit="B",
                facts={"count": count, "used": used_bytes(path), "allocated": _allocated_bytes(path)},
            ),
            bar=at_most(limit),
        )
        for kind, title, path, limit in kinds
    ]


def used_bytes(path: Path) -> int:
    """Returns the bytes of the index and the blocks of a log, the last block up to its last byte that is not zero."""
    *sealed, last = sorted(path.glob("*.block"))
    sealed_size = sum(block.stat().st_size for block in sealed)
    return sealed_size + len(last.read_bytes().rstrip(b"\0")) + (path / "index").stat().st_size


def _allocated_bytes(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.iterdir())


CONTESTS: Final[Sequence[Contest]] = (Contest("space.disk", on_disk),)
