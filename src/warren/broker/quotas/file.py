"""The quotas file of a store. Any process may read and change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from warren.broker.quotas.entities import DEFAULT, Entity, checked_value
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, CorruptSettings
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.shared_lock import SharedLock
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

QUOTAS_MAX: Final = 10_000
"""How many entities may have quotas."""

QuotaTable = dict[Entity, dict[str, float]]
QuotaChange = tuple[Entity, Mapping[str, float | None]]
"""New values of an entity by key; None removes one."""


class QuotasFile:
    """The quotas of the store at `path`. Any thread and process."""

    def __init__(self, path: str, filesystem: FileSystem = SYSTEM_FILE_SYSTEM, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path, self._filesystem = paths.quotas_file(path), filesystem
        self._lock = SharedLock(filesystem, paths.security_lock(path), clock)

    def read(self) -> QuotaTable:
        """Returns all quotas. Raises CorruptSettings if the file has other content."""
        data = read_json(self._filesystem, self.path) or {}
        try:
            return dict(_of_json(each) for each in data.get("quotas", ()))
        except (BadInput, KeyError, TypeError, AttributeError) as error:
            raise CorruptSettings(self.path, f"not a quota: {error}") from error

    def alter(self, changes: Iterable[QuotaChange]) -> QuotaTable:
        """Makes all of the changes, or none of them, and returns all quotas. Raises BadInput if one is not possible."""
        checked = [(entity, checked_values(entity, values)) for entity, values in changes]
        with self._lock:
            quotas = self.read()
            for entity, values in checked:
                merged = {**quotas.get(entity, {}), **values}
                quotas[entity] = {key: value for key, value in merged.items() if value is not None}
            quotas = {entity: values for entity, values in quotas.items() if values}
            if len(quotas) > QUOTAS_MAX:
                raise BadInput(f"there are more than {QUOTAS_MAX} entities with quotas")
            in_order = sorted(quotas.items(), key=lambda each: tuple(name or "" for name in each[0]))
            rows = [{**entity.parts, "quotas": dict(sorted(values.items()))} for entity, values in in_order]
            write_json(self._filesystem, self.path, {"quotas": rows})
        return quotas


def checked_values(entity: Entity, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Returns the values. Raises BadInput if the entity cannot have one of them. None removes a quota."""
    for key, value in values.items():
        checked_value(entity, key, 1.0 if value is None else value)
    return dict(values)


def _of_json(data: Mapping[str, Any]) -> tuple[Entity, dict[str, float]]:
    parts = {part: name or None for part, name in data.items() if part != "quotas"}
    entity = Entity.of(parts)
    return entity, {key: checked_value(entity, key, value) for key, value in data["quotas"].items()}


def quota_document(entity: Entity, values: Mapping[str, float]) -> dict[str, Any]:
    """Returns the quotas of an entity as users and programs see them; null names the default entity."""
    return {**{part: name if name != DEFAULT else None for part, name in entity.parts.items()}, "quotas": dict(values)}
