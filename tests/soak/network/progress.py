"""The progress of groups, read from the histories of their members while these are still written."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path


class Progress:
    """The places of messages that were delivered, by group. Each call reads only what is new."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}
        self.places: dict[str, set[tuple[int, int]]] = defaultdict(set)

    def count(self, group: str) -> int:
        """Returns how many messages the group has received."""
        self._look()
        return len(self.places[group])

    def _look(self) -> None:
        for path in self._directory.glob("*.history"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                kind, _, _, facts = json.loads(line)
                if kind in ("read", "took"):
                    self.places[facts["group"]].update(
                        (partition, number) for partition, number, _ in facts["messages"]
                    )
