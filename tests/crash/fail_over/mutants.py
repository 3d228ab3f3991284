"""A store with slaves, and one safeguard taken out: `python -m tests.crash.fail_over.mutants` shows who notices."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from tests.crash.mutants import Edit, Mutant, hunt

MUTANTS: Final[Sequence[Mutant]] = (
    Mutant(
        "published before the set has it",
        [Edit("commit.py", r"if self\.waits:\s+self\.shipping\.wait\([^\n]+\)", "pass")],
        ["fail-overs", "clients"],
    ),
    Mutant(
        "published in steps before the set has it",
        [Edit("shipped_commit.py", r"shipping\.when\(self\._barrier, done\)", "done()")],
        ["fail-overs"],
    ),
    Mutant(
        "a slave acknowledges what it has not synced",
        [Edit("replica_directory.py", r"lambda file: file\.sync\(\)", "lambda file: None")],
        ["fail-overs"],
        within="replication",
    ),
    Mutant(
        "a sync of a log is none on the slaves",
        [Edit("commit.py", r"self\.shipping\.ask_sync\([^\n]+\)", "pass")],
        ["fail-overs"],
    ),
    Mutant(
        "old records are not synced where they come to",
        [Edit("old_records.py", r"items\.append\(LogRange\(log, 0, 0, end, end, 0\)\)", "pass")],
        ["fail-overs"],
        within="replication",
    ),
    Mutant(
        "the sync of a state file does not wait",
        [Edit("replicated_filesystem.py", r"(self\._file\.sync\(\)\s+)self\._filesystem\.wait_for\([^\n]+", r"\1pass")],
        ["fail-overs", "clients"],
        within="replication",
    ),
    Mutant(
        "a state file is shipped only when it is replaced",
        [Edit("replicated_filesystem.py", r"self\._filesystem\.ship_file\([^\n]+\)", "pass")],
        ["fail-overs", "clients"],
        within="replication",
    ),
    Mutant(
        "a removed file is not shipped",
        [Edit("replicated_filesystem.py", r"self\.ship_removal\(path\)", "pass")],
        ["replicas"],
        within="replication",
    ),
    Mutant(
        "a file that was served while it changed is patched",
        [Edit("replicated_filesystem.py", r"self\._shipped\[path\] = None", "pass")],
        ["replicas"],
        within="replication",
    ),
    Mutant(
        "a range is not checked",
        [Edit("log_copy.py", r"crc32c\(payload\) != head\.checksum", "False")],
        ["replicas"],
    ),
    Mutant(
        "a block is known by its path",
        [Edit("old_records.py", r"\(change\.log, change\.block\)", '("", change.block)')],
        ["replicas"],
        within="replication",
    ),
    Mutant(
        "a slave shows all that it has",
        [Edit("index.py", r"if not self\.is_bounded:", "if True:")],
        ["replicas"],
    ),
    Mutant(
        "the incarnation changes after everything is removed",
        [
            Edit(
                "replica_directory.py",
                r"self\._take_incarnation\(\)\n        self\.close\(\)",
                "self.close()",
            )
        ],
        ["replicas"],
        within="replication",
    ),
    Mutant(
        "a lease is answered before its barrier",
        [Edit("queue_group.py", r"if self\.topic\.waits_for_replicas:\s+self\._ledger\.sync\(\)", "pass")],
        ["clients"],
        within="queue",
    ),
    Mutant(
        "acknowledgements are synced by durability alone",
        [Edit("queue_group.py", r"self\.topic\.syncs_answers", 'self.topic.settings.durability == "commit"')],
        ["clients"],
        within="queue",
    ),
    Mutant(
        "a master still leads after a change broke off",
        [Edit("commit.py", r"self\.shipping\.broke\(self\.files\.directory, \"a change[^\n]+", "pass")],
        ["replicas"],
    ),
    Mutant(
        "a cut leaves an empty block at the end",
        [
            Edit("recovery.py", r"base_number == self\._floor and self\._cut_at is None", "base_number == self._floor"),
            Edit("recovery.py", r" or plan\.number == self\._cut_at", ""),
        ],
        ["replicas", "cuts"],
    ),
)


def main() -> int:
    """0 if every mutant was noticed."""
    survivors = 0
    for mutant in MUTANTS:
        result = hunt(mutant)
        survivors += result.killed_by is None
        outcome = f"killed by {result.killed_by}" if result.killed_by else "SURVIVED"
        sys.stdout.write(f"{mutant.name}: {outcome} after {result.seconds:.1f} s\n    {result.words}\n")
        sys.stdout.flush()
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
