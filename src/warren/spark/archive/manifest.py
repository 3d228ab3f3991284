"""The manifest: the list of the files of an archive. It is never changed, but replaced by one with the next number."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import StoreBusy
from warren.spark.archive import paths
from warren.spark.archive.errors import ArchiveConflict, ArchiveDamaged, NotAnArchive
from warren.spark.archive.locks import held
from warren.spark.store_access.access import TopicPartition
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM
from warren.storage.format.checksum import crc32c

ARCHIVE_MANIFESTS_KEPT: Final = 20
ARCHIVE_COMMITS_TRIED_MAX: Final = 20

FORMAT: Final = "warren-archive"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """All messages of one partition from `first` up to `end`, in one Parquet file of `size` bytes.

    `path` and `staged` are relative to the archive. `crc` is the checksum of the file; `content` has those of the
    columns of its messages. Times are µs since the epoch, on the day `date` in UTC. `gaps` are ranges of numbers whose
    messages the log had but could not read, because a client had packed them wrongly.
    """

    topic: str
    topic_id: str
    partition: int
    date: str
    first: int
    end: int
    first_timestamp: int
    last_timestamp: int
    size: int
    crc: str
    content: Mapping[str, str]
    path: str
    staged: str
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def count(self) -> int:
        return self.end - self.first - sum(end - start for start, end in self.gaps)

    def runs(self, start: int) -> list[range]:
        """Returns the numbers from `start` on that the file has, as runs without a gap."""
        edges = [self.first, *(number for gap in self.gaps for number in gap), self.end]
        runs = [range(max(first, start), end) for first, end in zip(edges[::2], edges[1::2], strict=True)]
        return [run for run in runs if run]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ArchivedFile:
        """Parses the result of `to_json`. Ignores fields that a later release has added."""
        gaps = tuple((start, end) for start, end in data.get("gaps", ()))
        return cls(**{field.name: data[field.name] for field in fields(cls) if field.name != "gaps"}, gaps=gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of an archive, by topic, partition and number. `number` is 0 if there are none yet."""

    number: int = 0
    files: Sequence[ArchivedFile] = ()

    def topics(self) -> list[str]:
        return sorted({file.topic for file in self.files})

    def topic_id(self, topic: str) -> str | None:
        """Returns the id that distinguishes the archived topic from others of its name; None if the topic is not
        archived.
        """
        return next((file.topic_id for file in self.files if file.topic == topic), None)

    def of(self, topic: str, partition: int | None = None) -> list[ArchivedFile]:
        """Returns the files of a topic, or of one partition of it."""
        return [file for file in self.files if file.topic == topic and partition in (None, file.partition)]

    def ends(self) -> dict[TopicPartition, int]:
        """Returns the number up to which each partition is archived."""
        ends: dict[TopicPartition, int] = {}
        for file in self.files:
            ends[file.place] = max(file.end, ends.get(file.place, 0))
        return ends

    def with_files(self, added: Iterable[ArchivedFile]) -> Manifest:
        """Returns the next manifest: the files of this one, and `added`."""
        files = sorted([*self.files, *added], key=lambda file: (file.place, file.first))
        return Manifest(number=self.number + 1, files=files)


def load_manifest(archive: str) -> Manifest:
    """Returns the latest manifest; an empty one if nothing has been archived to this directory yet."""
    directory = paths.manifests_directory(archive)
    if not os.path.isdir(directory):
        return Manifest()
    while numbers := _numbers(directory):
        try:
            return read_manifest(archive, numbers[-1])
        except FileNotFoundError:
            # Many manifests were committed in the meantime, and this one has been removed.
            continue
    return Manifest()


def require_manifest(archive: str) -> Manifest:
    """Returns the latest manifest. Raises NotAnArchive if there is none."""
    manifest = load_manifest(archive)
    if not manifest.number:
        reason = "there is no manifest in it" if os.path.isdir(archive) else "there is no such directory"
        raise NotAnArchive(archive, f"{reason}; `warren archive run` creates one")
    return manifest


def read_manifest(archive: str, number: int) -> Manifest:
    """Returns manifest `number`.

    Raises ArchiveDamaged if it is not complete, FileNotFoundError if it no longer exists.
    """
    path = paths.manifest_file(archive, number)
    with open(path, "rb") as file:
        text = file.read().splitlines()
    try:
        head, *lines, foot = text
        kind, end = json.loads(head), json.loads(foot)
        if kind["format"] != FORMAT or kind["version"] != FORMAT_VERSION or kind["number"] != number:
            raise ArchiveDamaged(path, f"it is not manifest {number} of format {FORMAT} version {FORMAT_VERSION}")
        if end != _foot(lines):
            raise ArchiveDamaged(path, "its lines were changed")
        return Manifest(number=number, files=[ArchivedFile.from_json(json.loads(line)) for line in lines])
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveDamaged(path, f"it is not a manifest ({error})") from error


def commit_files(archive: str, added: Sequence[ArchivedFile], clock: Clock = SYSTEM_CLOCK) -> Manifest:
    """Makes the files part of the archive, all of them or none. Returns the new manifest, which is then durable.

    Raises ArchiveConflict, and changes nothing, if another run has archived the same messages in the meantime.
    """
    directory = paths.manifests_directory(archive)
    SYSTEM_FILE_SYSTEM.make_directory(directory)
    with held(paths.manifests_lock(archive), clock):
        for _ in range(ARCHIVE_COMMITS_TRIED_MAX):
            latest = load_manifest(archive)
            _check_following(archive, latest, added)
            manifest = latest.with_files(added)
            if _create(archive, manifest, clock):
                _forget(directory, manifest.number - ARCHIVE_MANIFESTS_KEPT)
                return manifest
            # On some shared disks the lock does not exclude other machines, and one of them was faster.
    raise StoreBusy(directory)


def _check_following(archive: str, manifest: Manifest, added: Sequence[ArchivedFile]) -> None:
    """Raises ArchiveConflict unless each file continues the archive of its partition, or begins it."""
    ends = manifest.ends()
    for file in sorted(added, key=lambda file: (file.place, file.first)):
        is_other = manifest.topic_id(file.topic) not in (None, file.topic_id)
        if is_other or ends.get(file.place, file.first) != file.first:
            raise ArchiveConflict(archive, file.topic, file.partition)
        ends[file.place] = file.end


def _create(archive: str, manifest: Manifest, clock: Clock) -> bool:
    """Writes the manifest under its number. Returns False if there is one with that number already."""
    path = paths.manifest_file(archive, manifest.number)
    new_path = f"{path}.{os.getpid()}.new"
    lines = [json.dumps(file.to_json(), sort_keys=True).encode() for file in manifest.files]
    head = {"format": FORMAT, "version": FORMAT_VERSION, "number": manifest.number, "created": clock.now_ns() // 1000}
    with open(new_path, "wb") as file:
        file.write(b"\n".join([json.dumps(head).encode(), *lines, json.dumps(_foot(lines)).encode(), b""]))
        file.flush()
        os.fsync(file.fileno())
    try:
        # Unlike a rename, a link never replaces an existing file.
        os.link(new_path, path)
    except FileExistsError:
        return False
    finally:
        os.remove(new_path)
    SYSTEM_FILE_SYSTEM.sync_directory(os.path.dirname(path))
    return True


def _foot(lines: Sequence[bytes]) -> dict[str, Any]:
    return {"files": len(lines), "crc": f"{crc32c(b''.join(lines)):08x}"}


def _numbers(directory: str) -> list[int]:
    numbers = map(paths.manifest_number, os.listdir(directory))
    return sorted(number for number in numbers if number is not None)


def _forget(directory: str, number_max: int) -> None:
    for number in _numbers(directory):
        if number <= number_max:
            os.remove(os.path.join(directory, f"{number:020d}.jsonl"))
