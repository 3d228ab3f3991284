"""The errors of archives: a branch of the tree in `warren.errors`."""

from __future__ import annotations

from warren.errors import StoreError


class ArchiveError(StoreError):
    """An error of an archive of topics."""

    code = "archive"


class NotAnArchive(ArchiveError):
    """The directory does not hold an archive."""

    code = "not_an_archive"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not an archive: {reason}")
        self.path, self.reason = path, reason


class ArchiveDamaged(ArchiveError):
    """A file of an archive is missing, or differs from the manifest."""

    code = "archive_damaged"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}; `warren archive verify` lists all differences")
        self.path, self.reason = path, reason


class ArchiveGap(ArchiveError):
    """Messages between the end of an archive and the start of the log are in neither."""

    code = "archive_gap"

    def __init__(self, topic: str, partition: int, end: int, first: int) -> None:
        super().__init__(
            f"messages {end} to {first - 1} of partition {partition} of topic {topic!r} were retired before they were "
            "archived: begin a new archive in another directory, or read archive and log separately"
        )
        self.topic, self.partition, self.end, self.first = topic, partition, end, first


class ArchiveOfAnother(ArchiveError):
    """The archive contains messages of another topic that had this name before, or of another store."""

    code = "archive_of_another"

    def __init__(self, path: str, topic: str) -> None:
        super().__init__(
            f"{path} contains another topic with the name {topic!r}, which was deleted or is in another store; use "
            "another directory for this one"
        )
        self.path, self.topic = path, topic


class ArchiveConflict(ArchiveError):
    """Another run has archived the same messages at the same time. Nothing of this run was kept."""

    code = "archive_conflict"
    retryable = True

    def __init__(self, path: str, topic: str, partition: int) -> None:
        super().__init__(
            f"another run has archived partition {partition} of topic {topic!r} to {path} in the meantime; nothing of "
            "this run was kept: run it again for the remaining messages"
        )
        self.path, self.topic, self.partition = path, topic, partition
