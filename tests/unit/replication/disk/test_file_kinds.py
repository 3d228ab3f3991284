from __future__ import annotations

import pytest

from warren.replication.disk.file_kinds import FileKind, is_local_directory, kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("topics/orders/0/00000000000000000000.block", FileKind.BLOCK),
        ("topics/orders/groups/work/ledger/00000000000000000000.block", FileKind.BLOCK),
        ("transactions/journal/00000000000000000000.block", FileKind.BLOCK),
        ("topics/orders/0/index", FileKind.INDEX),
        ("topics/index/topic.json", FileKind.STATE),
        ("topics/orders.lock/topic.json", FileKind.STATE),
        ("topics/orders/0/readers/billing.reader", FileKind.STATE),
        ("topics/orders/0/sequences.json", FileKind.STATE),
        ("topics/orders/delayed/intent", FileKind.STATE),
        ("topics/orders/delayed/day.done/00000000000000000000.done", FileKind.STATE),
        ("store.json", FileKind.STATE),
        ("users.json", FileKind.STATE),
        ("a file that a later release adds", FileKind.STATE),
        ("store.json.new", FileKind.LOCAL),
        ("topics/orders/0/index.new", FileKind.LOCAL),
        ("topics/orders/0/writer.lock", FileKind.LOCAL),
        ("topics/orders/delayed/day.order/00000000000000000000-00000000000000000009.run", FileKind.LOCAL),
        ("topics/orders/groups/work/members/a.b.member", FileKind.LOCAL),
        ("topics/orders/groups/work/0.owner", FileKind.LOCAL),
        ("sessions/0123.session", FileKind.LOCAL),
        ("wakeup", FileKind.LOCAL),
        ("broker/ready", FileKind.LOCAL),
        ("pipelines/sums/checkpoint/offsets/0", FileKind.LOCAL),
        ("replication/incarnation", FileKind.LOCAL),
        ("transactions/journal.copy/00000000000000000000.block", FileKind.LOCAL),
    ],
)
def test_a_file_that_is_not_known_to_be_local_is_shipped(path: str, kind: FileKind) -> None:
    assert kind_of(path) is kind


def test_local_directories_are_not_shipped() -> None:
    assert is_local_directory("pipelines")
    assert is_local_directory("transactions/journal.damaged-17")
    assert not is_local_directory("transactions/journal")
    assert not is_local_directory("topics/pipelines")
